#include "engine/ops/scale_rows.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::ScaleRows& op, Doubles& v) {
  const Values &x = v[op.x], &weights = v[op.weights];
  Values& y = v.out(op.y);
  const auto cols = static_cast<std::size_t>(op.x.shape().cols());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = weights[i / cols] * x[i];
}

ops::ScaleRows make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type);
  return {x, t.in({s.rows(), 1}, DType::f32), t.over({x})};
}

void reference(const ops::ScaleRowsGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &weights = v[op.weights];
  Values &dx = v.out(op.dx), &dweights = v.out(op.dweights);
  const auto cols = static_cast<std::size_t>(op.x.shape().cols());
  dweights.assign(dweights.size(), 0);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    dx[i] = weights[i / cols] * dy[i];
    dweights[i / cols] += dy[i] * x[i];
  }
}

ops::ScaleRowsGrad make_grad(Tensors& t, const Shape& s, DType type) {
  const Tensor dy = t.in(s, type), x = t.in(s, type);
  return {dy, x, t.in({s.rows(), 1}, DType::f32), t.over({dy}), t.out({s.rows(), 1})};
}

const Cases<ops::ScaleRows> scale_rows(reference, [](CaseList<ops::ScaleRows>& cases) {
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(label(type, s), [=](Tensors& t) { return make(t, s, type); }, {.kernel = kExact});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make(t, s, type); });
  });
  cases.gradient(
      "[3, 5]",
      [](Tensors& t) {
        return make(t, {3, 5}, DType::f32);
      },
      [](Tensors& t, const ops::ScaleRows& op) {
        ops::ScaleRowsGrad grad = make_grad(t, {3, 5}, DType::f32);
        grad.x = op.x, grad.weights = op.weights;
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.weights, grad.dweights}}}};
      });
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16); });
});

const Cases<ops::ScaleRowsGrad> scale_rows_grad(reference, [](CaseList<ops::ScaleRowsGrad>& cases) {
  const Within within{.cpu = {2e-5}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s), [=](Tensors& t) { return make_grad(t, s, type); }, within);
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(
        label(type, s), [=](Tensors& t) { return make_grad(t, s, type); }, within);
  });
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfn, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeFfn, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
