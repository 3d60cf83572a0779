#include "engine/ops/sum_squares.h"
#include "test/ops/cases.h"
#include "test/ops/ranges.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::SumSquares& op, Doubles& v) {
  const Values& x = v[op.x];
  double& sum = v.out(op.sum)[0];
  for (std::int64_t i = 0; i < op.x.numel(); ++i)
    if (op.only.empty() || is_within(op.only, i)) sum += x[i] * x[i];
}

ops::SumSquares make(Tensors& t, std::int64_t n, DType type, ops::ElementRanges only = {}) {
  return {t.in({n}, type), t.inout({1}, DType::f32), only};
}

const Cases<ops::SumSquares> sum_squares(reference, [](CaseList<ops::SumSquares>& cases) {
  const Within within{.cpu = {0}, .kernel = {0, 1e-6}};
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(
        label(type, {n}), [=](Tensors& t) { return make(t, n, type); }, within);
  });
  // More than one stride of the largest grid.
  cases.add(
      "bf16 [270000]", [](Tensors& t) { return make(t, 270000, DType::bf16); }, within);
  for_types_and(kRangeSets, [&](DType type, const RangeSet& set) {
    cases.add(fmt::format("{} of {}", name_of(type), set.name),
              [type, &set](Tensors& t) { return make(t, set.length, type, set.list); },
              {.cpu = {0}, .kernel = {2e-6, 4e-6}});
  });
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : {65537, 300001})
      cases.unemulated(
          label(type, {n}), [=](Tensors& t) { return make(t, n, type); }, within);
    for (const double bad : {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), std::nan("")})
      cases.add(
          fmt::format("{} with {}", name_of(type), bad),
          [=](Tensors& t) {
            Values v = uniform(500, -1, 1, 1);
            v[432] = bad;
            return ops::SumSquares{t.values({500}, type, v), t.inout({1}, DType::f32)};
          },
          within);
  }
  cases.timed("64 MiB", [](Tensors& t) { return make(t, 16 << 20, DType::f32); });
  cases.huge("8 Gi", [](Tensors& t) { return make(t, std::int64_t{8} << 30, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
