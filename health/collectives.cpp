#include "health/collectives.h"

#include <array>
#include <span>

namespace mbench::health {
namespace {

double part_of(int k) {
  return static_cast<double>(k - 1) / k;
}

Tensor whole(const Buffers& b) {
  return b.whole;
}
Tensor other(const Buffers& b) {
  return b.other;
}
Tensor part(const Buffers& b) {
  return b.part;
}

constexpr std::int64_t kPeriod = 127;  // of samples along a buffer

}  // namespace

float sample(int rank, std::int64_t i) {
  return static_cast<float>((i * 7 + rank * std::int64_t{13}) % kPeriod);
}

Buffers make_buffers(Device& device, std::int64_t elements, DType dtype, int ranks) {
  mbench::check(elements % ranks == 0, "check", "{} elements for {} ranks, need a multiple", elements, ranks);
  const auto make = [&](std::int64_t n) { return device.empty({n}, dtype, Category::other, "check"); };
  return {make(elements), make(elements), make(elements / ranks)};
}

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = {
      {"all_reduce", [](int k) { return 2 * part_of(k); },
       [](const Buffers& b) { return comm::Collective(comm::AllReduce{b.whole}); }, whole, whole,
       [](int, int, std::int64_t, std::int64_t i) {
         return Source{Source::kAll, i};
       }},
      {"all_gather", part_of,
       [](const Buffers& b) {
         return comm::Collective(comm::AllGather{b.part, b.whole});
       },
       part, whole,
       [](int, int, std::int64_t each, std::int64_t i) {
         return Source{static_cast<int>(i / each), i % each};
       }},
      {"reduce_scatter", part_of,
       [](const Buffers& b) {
         return comm::Collective(comm::ReduceScatter{b.whole, b.part});
       },
       whole, part,
       [](int rank, int, std::int64_t each, std::int64_t i) {
         return Source{Source::kAll, rank * each + i};
       }},
      {"all_to_all", part_of,
       [](const Buffers& b) {
         return comm::Collective(comm::AllToAll{b.whole, b.other});
       },
       whole, other,
       [](int rank, int, std::int64_t each, std::int64_t i) {
         return Source{static_cast<int>(i / each), rank * each + i % each};
       }},
      {"send", [](int) { return 1.0; },
       [](const Buffers& b) {
         return comm::Collective(comm::Shift{b.whole, b.other});
       },
       whole, other,
       [](int rank, int ranks, std::int64_t, std::int64_t i) {
         return Source{(rank + ranks - 1) % ranks, i};
       }}};
  return all;
}

std::int64_t wrong_elements(const Collective& c, comm::Group& group, Device& device, const Buffers& b) {
  const Tensor in = c.input(b), out = c.output(b);
  std::vector<float> values(static_cast<std::size_t>(in.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = sample(group.rank(), static_cast<std::int64_t>(i));
  device.write(in, std::as_bytes(std::span(values)));
  group.run(c.call(b));
  values.assign(static_cast<std::size_t>(out.numel()), -1);
  device.read(out, std::as_writable_bytes(std::span(values)));
  std::array<float, kPeriod> sums{};
  for (std::int64_t i = 0; i < kPeriod; ++i)
    for (int r = 0; r < group.size(); ++r) sums[static_cast<std::size_t>(i)] += sample(r, i);
  const std::int64_t each = b.whole.numel() / group.size();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Source from = c.source(group.rank(), group.size(), each, static_cast<std::int64_t>(i));
    const float want = from.rank == Source::kAll ? sums[static_cast<std::size_t>(from.element % kPeriod)]
                                                 : sample(from.rank, from.element);
    if (values[i] != want) ++wrong;
  }
  return wrong;
}

}  // namespace mbench::health
