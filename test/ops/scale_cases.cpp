#include "engine/ops/scale.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Scale& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(op.factor) * x[i];
}

ops::Scale make(Tensors& t, const Shape& s, DType type, bool in_place) {
  const Tensor x = t.in(s, type);
  return {x, in_place ? t.over({x}) : t.out(s, type), 7.5f};
}

const Cases<ops::Scale> scale(reference, [](CaseList<ops::Scale>& cases) {
  for (const bool in_place : {false, true}) {
    const std::string suffix = in_place ? " in place" : "";
    for_types_and(kLengths, [&](DType type, std::int64_t n) {
      cases.add(label(type, Shape{n}) + suffix, [=](Tensors& t) { return make(t, {n}, type, in_place); });
    });
    for_types_and(kLargeRows, [&](DType type, const Shape& s) {
      cases.unemulated(label(type, s) + suffix, [=](Tensors& t) { return make(t, s, type, in_place); });
    });
  }
  // It is its own gradient.
  cases.gradient(
      "[7]", [](Tensors& t) { return make(t, {7}, DType::f32, false); },
      [](Tensors& t, const ops::Scale& op) {
        const ops::Scale grad{t.in({7}, DType::f32), t.out({7}), op.factor};
        return Backward{grad, {op.y, grad.x, {{op.x, grad.y}}}};
      });
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32, true); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, true); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16, true); });
});

}  // namespace
}  // namespace mbench::test
