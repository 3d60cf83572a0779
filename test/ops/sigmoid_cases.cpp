#include "engine/ops/sigmoid.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Sigmoid& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 1 / (1 + std::exp(-x[i]));
}

void reference(const ops::SigmoidGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &y = v[op.y];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

ops::Sigmoid make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type, -6, 6);
  return {x, t.out(s, DType::f32)};
}

ops::SigmoidGrad make_grad(Tensors& t, const Shape& s, DType type) {
  return {t.in(s, DType::f32), t.in(s, DType::f32, 0, 1), t.out(s, type)};
}

const Cases<ops::Sigmoid> sigmoid(reference, [](CaseList<ops::Sigmoid>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(label(type, Shape{n}), [=](Tensors& t) { return make(t, {n}, type); }, {.cpu = {2e-6}});
  });
  cases.gradient(
      "[7]", [](Tensors& t) { return make(t, {7}, DType::f32); },
      [](Tensors& t, const ops::Sigmoid& op) {
        const ops::SigmoidGrad grad{t.in({7}, DType::f32), op.y, t.out({7})};
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
      });
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, {64, 1}, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16); });
});

const Cases<ops::SigmoidGrad> sigmoid_grad(reference, [](CaseList<ops::SigmoidGrad>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(label(type, Shape{n}), [=](Tensors& t) { return make_grad(t, {n}, type); });
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, {64, 1}, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) { return make_grad(t, kHugeHidden, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
