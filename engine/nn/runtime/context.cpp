#include "engine/nn/runtime/context.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/text.h"

namespace mbench::nn {
namespace {

// Calls f(size, coordinate) for every axis that cuts a share of the sequence further, outermost first.
template <class F>
void for_each_cut(const Plan& plan, const Groups& groups, const F& f) {
  for (int i = kAxes; i-- > 0;) {
    const Axis axis = static_cast<Axis>(i);
    if (axis != Axis::cp && plan.hidden.value[axis].sharded(0)) f(plan.mesh.size(axis), groups.coordinate(axis));
  }
}

}  // namespace

WeightGradients Context::weight_gradients() const {
  const bool wait = plan.state.weights.sharded() && !plan.state.gradients.sharded();
  return keeps().copied_gradients && wait ? WeightGradients::apart : keeps().weight_gradients;
}

std::int64_t Context::local_seq() const {
  std::int64_t n = share().rows();
  for_each_cut(plan, groups, [&](int size, int) { n /= size; });
  return n;
}

std::int64_t Context::first_row() const {
  std::int64_t n = share().rows(), first = 0;
  for_each_cut(plan, groups, [&](int size, int coordinate) {
    n /= size;
    first += n * coordinate;
  });
  return first;
}

std::int64_t Context::class_row() const {
  return plan.model.labels_from_last() ? share().rows() - 1 : 0;
}

bool Context::has_class_position() const {
  return share().position(class_row()) == (plan.model.labels_from_last() ? plan.training.seq - 1 : 0);
}

void Context::leave(std::function<void()> gemm) {
  Allocator& memory = device.memory();
  later->push_back([&memory, part = memory.part(), gemm = std::move(gemm)] {
    const InPart here(memory, part);
    gemm();
  });
}

void Context::make_left() {
  if (!later) return;
  first_of_part = 0;
  for (std::function<void()>& gemm : std::exchange(*later, {})) std::exchange(gemm, {})();  // what it held goes with it
}

void Context::travel(Way own) {
  if (const auto work = std::exchange(beside, {})) work();
  if (!fiber || own != way) return;
  if (own == Way::backward && plan.delay_wgrad) make_left();
  fiber->pause();
}

Tensor Context::document_bounds(const DocumentsOrNone& documents) {
  for (const auto& [of, table] : document_tables)
    if (of == documents || *of == *documents) return table;
  const std::int64_t seq = documents->seq();
  const Tensor table = device.empty({2, seq}, DType::i64, Category::other, "bounds of documents");
  document_tables.emplace_back(documents, table);
  if (!device.real()) return table;
  std::vector<std::int64_t> bounds;
  for (std::int64_t p = 0; p < seq; ++p) bounds.push_back(documents->first_of(p));
  for (std::int64_t p = 0; p < seq; ++p) bounds.push_back(documents->end_of(p));
  device.write(table, std::as_bytes(std::span(bounds)));
  return table;
}

void RouterLoad::add(std::span<const std::int64_t> counts) {
  const std::int64_t most = *std::max_element(counts.begin(), counts.end()),
                     all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const double ratio =
      all == 0 ? 1 : static_cast<double>(most) * static_cast<double>(counts.size()) / static_cast<double>(all);
  sum += ratio;
  largest = std::max(largest, ratio);
  ++count;
}

Tensor keys_of(const MicroBatch& batch) {
  if (!batch.keep) return {};
  check(batch.keep.shape()[0] == 1, "keys", "of the whole sequence, got {} chunks", batch.keep.shape()[0]);
  return keys_of(batch, 0);
}

Tensor keys_of(const MicroBatch& batch, std::int64_t chunk) {
  if (!batch.keep) return {};
  const Shape& s = batch.keep.shape();
  return batch.keep.slice(chunk, 1).view({s[1], s[2]});
}

ops::DropoutSpec dropout_at(const Context& context, std::uint64_t site) {
  constexpr std::uint64_t kNextPass = 0xD1B54A32D192ED03u;
  const std::uint64_t pass = context.passes[static_cast<std::size_t>(context.way)];
  return {context.dropout(),
          {context.plan.training.seed, site + pass * kNextPass, static_cast<std::uint32_t>(context.step)},
          context.step_on_device};
}

std::uint64_t site_of(const std::string& name) {
  return fnv1a(name);
}

}  // namespace mbench::nn
