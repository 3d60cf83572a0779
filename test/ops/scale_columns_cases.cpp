#include "engine/ops/scale_columns.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::ScaleColumns& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = x[i] * static_cast<double>(op.columns.at(static_cast<std::int64_t>(i) % op.columns.width()));
}

struct Form {
  std::int64_t rows;
  std::array<std::int64_t, 5> ends;
  std::string str() const { return fmt::format("{} rows of {}", rows, ends.back()); }
};

ops::ScaleColumns make(Tensors& t, const Form& f, DType type, bool in_place) {
  const Tensor x = t.in({f.rows, f.ends.back()}, type);
  return {x, in_place ? t.over({x}) : t.out(x.shape(), type), {f.ends, {0.5f, 3, 1, 0.125f, 7}}};
}

// Pairs; a run of no columns; rows that are wider than a tile.
const Form kForms[] = {
    {1, {1, 1, 1, 1, 1}}, {701, {1, 2, 2, 2, 2}}, {5, {3, 4, 4, 9, 11}}, {3, {700, 1400, 1500, 1600, 1603}}};
const Form kBench{kBenchTokens, {1024, 2048, 2304, 2560, 2568}}, kHuge{65536, {8192, 16384, 17408, 18432, 18560}},
    kSmall{16, {64, 128, 136, 144, 148}};

const Cases<ops::ScaleColumns> scale_columns(reference, [](CaseList<ops::ScaleColumns>& cases) {
  for (const bool in_place : {false, true})
    for_types_and(kForms, [&](DType type, const Form& f) {
      cases.add(fmt::format("{} {}{}", name_of(type), f.str(), in_place ? " in place" : ""),
                [=](Tensors& t) { return make(t, f, type, in_place); });
    });
  cases.gradient(
      "4 rows of 11",
      [](Tensors& t) {
        return make(t, {4, {3, 4, 4, 9, 11}}, DType::f32, false);
      },
      [](Tensors& t, const ops::ScaleColumns& op) {
        const Shape s = op.x.shape();
        const ops::ScaleColumns grad{t.in(s, DType::f32), t.out(s), op.columns};
        return Backward{grad, {op.y, grad.x, {{op.x, grad.y}}}};
      });
  cases.timed("2568 columns", [](Tensors& t) { return make(t, kBench, DType::f32, true); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16, true); });
  cases.huge("18560 columns", [](Tensors& t) { return make(t, kHuge, DType::bf16, true); });
});

}  // namespace
}  // namespace mbench::test
