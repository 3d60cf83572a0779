#include "engine/ops/dispatch_plan.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// The definition, expert by expert.
void reference(const ops::DispatchPlan& op, Doubles& v) {
  const Values& experts = v[op.experts];
  Values &rows = v.out(op.rows), &pairs = v.out(op.pairs), &counts = v.out(op.counts), &offsets = v.out(op.offsets);
  rows.assign(rows.size(), -1);
  pairs.assign(pairs.size(), -1);
  std::int64_t row = 0;
  for (std::int64_t e = 0; e < op.number(); ++e) {
    const std::int64_t first = row;
    offsets[e] = static_cast<double>(first);
    counts[e] = 0;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if (experts[i] != static_cast<double>(op.first + e)) continue;
      ++counts[e];
      if (op.capacity > 0 && row == first + op.capacity) continue;
      pairs[row] = static_cast<double>(i);
      rows[i] = static_cast<double>(row++);
    }
    if (op.capacity > 0) row = first + op.capacity;
    while (row % op.multiple != 0) ++row;  // as the first row is one
  }
  offsets[op.number()] = static_cast<double>(row);
}

struct Sizes {
  std::int64_t tokens, k, experts;
  std::int64_t capacity = 0, more = 0, multiple = 1;  // `more` rows than are needed
  std::int64_t first = 0;
};

ops::DispatchPlan make(Tensors& t, const Sizes& z, const Tensor& experts) {
  const std::int64_t rows =
      (z.capacity > 0 ? z.experts * z.capacity : z.tokens * z.k + z.experts * (z.multiple - 1)) + z.more;
  return {experts,
          t.out({z.tokens, z.k}, DType::i64),
          t.out({rows}, DType::i64),
          t.out({z.experts}, DType::i64),
          t.out({z.experts + 1}, DType::i64),
          z.capacity,
          z.multiple,
          z.first};
}

// Some experts are beyond the last: those pairs have none.
ops::DispatchPlan make(Tensors& t, const Sizes& z) {
  return make(t, z, t.ids({z.tokens, z.k}, z.first + z.experts + z.experts / 3));
}

const Cases<ops::DispatchPlan> dispatch_plan(reference, [](CaseList<ops::DispatchPlan>& cases) {
  const Within exact{.cpu = kExact, .kernel = kExact};
  const auto name = [](const Sizes& z) {
    return fmt::format("{} x {} of {} from {}, capacity {}, {} more rows, multiples of {}", z.tokens, z.k, z.experts,
                       z.first, z.capacity, z.more, z.multiple);
  };
  for (const Sizes& z :
       {Sizes{0, 2, 3}, Sizes{1, 1, 1}, Sizes{1, 1, 1, 3}, Sizes{7, 2, 4}, Sizes{7, 2, 4, 2, 5}, Sizes{128, 2, 8},
        Sizes{129, 2, 8, 0, 40}, Sizes{129, 2, 8, 0, 0, 16}, Sizes{50, 3, 70, 0, 9, 8}, Sizes{300, 2, 8, 80},
        Sizes{70, 8, 64}, Sizes{129, 2, 4, 0, 0, 1, 8}, Sizes{300, 3, 8, 20, 0, 1, 16}, Sizes{70, 8, 64, 9},
        Sizes{33, 3, 300}, Sizes{100, 3, 33, 7, 300}})
    cases.add(
        name(z), [=](Tensors& t) { return make(t, z); }, exact);
  cases.add(
      "nobody's pairs",
      [](Tensors& t) {
        return make(t, {3, 2, 2}, t.values({3, 2}, DType::i64, {-1, 1, 5, 2, 1, -7}));
      },
      exact);
  const Sizes several{33000, 2, 5, 9000};  // more tiles than blocks
  cases.add(
      name(several), [=](Tensors& t) { return make(t, several); }, exact);
  for (const Sizes& z : {Sizes{8192, 8, 256}, Sizes{8192, 8, 256, 300}, Sizes{40000, 6, 160}})
    cases.unemulated(
        name(z), [=](Tensors& t) { return make(t, z); }, exact);
  cases.timed("8192 x 8 of 256", [](Tensors& t) { return make(t, {8192, 8, 256}); });
  cases.enqueued(4, [](Tensors& t) { return make(t, {64, 2, 8}); });
  for (const std::int64_t capacity : {0, 20000})
    cases.huge(fmt::format("1 Mi x 8 of 256, capacity {}", capacity), [=](Tensors& t) {
      return make(t, {1 << 20, 8, 256, capacity});
    });
});

}  // namespace
}  // namespace mbench::test
