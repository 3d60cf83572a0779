#include "engine/ops/squared_relu.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double positive(const Doubles& v, const Tensor& x, const Tensor& bias, std::size_t i) {
  return std::max(0.0, v[x][i] + (bias ? v[bias][i % v[bias].size()] : 0));
}

void reference(const ops::SquaredRelu& op, Doubles& v) {
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double z = positive(v, op.x, op.bias, i);
    y[i] = z * z;
  }
}

ops::SquaredRelu make(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor x = t.in(s, type, -3, 3);
  return {x, bias ? t.in({s.cols()}, type) : Tensor(), t.out(s, type)};
}

void reference(const ops::SquaredReluGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * 2 * positive(v, op.x, op.bias, i);
}

ops::SquaredReluGrad make_grad(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor dy = t.in(s, type), x = t.in(s, type, -3, 3);
  return {dy, x, bias ? t.in({s.cols()}, type) : Tensor(), t.over({dy})};
}

std::string name(DType type, const Shape& s, bool bias) {
  return label(type, s) + (bias ? " with a bias" : "");
}

const Cases<ops::SquaredRelu> squared_relu(reference, [](CaseList<ops::SquaredRelu>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); }, {.cpu = {2e-6}});
    });
    cases.gradient(
        bias ? "[3, 5] with a bias" : "[3, 5]",
        [=](Tensors& t) {
          return make(t, {3, 5}, DType::f32, bias);
        },
        [](Tensors& t, const ops::SquaredRelu& op) {
          const ops::SquaredReluGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 5})};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  }
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16, false); });
});

const Cases<ops::SquaredReluGrad> squared_relu_grad(reference, [](CaseList<ops::SquaredReluGrad>& cases) {
  for (const bool bias : {false, true})
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias); }, {.cpu = {2e-6}});
    });
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeFfn, DType::bf16, false); });
});

}  // namespace
}  // namespace mbench::test
