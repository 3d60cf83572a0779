#include "engine/train/gradient_sync.h"

#include <set>

#include "engine/ops/ops.h"

namespace mbench {
namespace {

constexpr Axes kModelAxes{Axis::tp, Axis::etp, Axis::ep};

}  // namespace

GradientSync::GradientSync(Device& device, const Plan& plan, const ParameterStore& store,
                           const Groups& groups)
    : device_(device),
      store_(store),
      groups_(groups),
      bucket_elements_(
          static_cast<std::int64_t>(plan.gradient_bucket_bytes / size_of(plan.precision.gradients))) {}

void GradientSync::flush() {
  if (bucket_.begin == bucket_.end) return;
  const Tensor gradients = store_.gradients().part(bucket_.begin, {bucket_.end - bucket_.begin});
  pending_.push_back(groups_.over(bucket_.data).start_all_reduce(gradients));
  bucket_ = {};
}

void GradientSync::ready(int unit) {
  const auto& runs = store_.unit(unit).runs();
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->data.empty()) continue;
    // Of another chunk, or reduced over other ranks: not one piece with what waits.
    if (bucket_.begin != bucket_.end && (run->end != bucket_.begin || run->data != bucket_.data)) flush();
    if (bucket_.begin == bucket_.end) bucket_ = {run->end, run->end, run->data};
    bucket_.begin = run->begin;
    if (bucket_.end - bucket_.begin >= bucket_elements_) flush();
  }
}

// Many small tensors: one collective over a packed copy.
void GradientSync::reduce_packed(Axes axes) {
  std::vector<const Parameter*> some;
  std::int64_t n = 0;
  for (const auto& p : store_.all()) {
    if ((p->reduce_over & kModelAxes) != axes) continue;
    some.push_back(p.get());
    n += p->local.numel();
  }
  const Tensor packed = device_.empty({n}, store_.gradients().dtype(), Category::workspace,
                                      "packed gradients of replicated parameters");
  const auto each = [&](auto&& action) {
    std::int64_t at = 0;
    for (const Parameter* p : some) {
      action(store_.gradient_of(*p), packed.part(at, p->local));
      at += p->local.numel();
    }
  };
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{gradient, place}); });
  groups_.over(axes).all_reduce(packed);
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{place, gradient}); });
}

void GradientSync::finish() {
  flush();
  for (auto& p : pending_) p->wait();
  pending_.clear();
  std::set<Axes> sets;
  for (const auto& p : store_.all())
    if (const Axes axes = p->reduce_over & kModelAxes; !axes.empty()) sets.insert(axes);
  for (const Axes axes : sets) reduce_packed(axes);
  if (Group* ends = groups_.embedding())
    for (const auto& p : store_.all())
      if (p->shared_by_ends) ends->all_reduce(store_.gradient_of(*p));
}

}  // namespace mbench
