#include "engine/ops/activation.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::ActivationKind;

template <class Op>
double input(const Doubles& v, const Op& op, std::size_t i) {
  return v[op.x][i] + (op.bias ? v[op.bias][i % v[op.bias].size()] : 0);
}

void reference(const ops::Activate& op, Doubles& v) {
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double z = input(v, op, i);
    y[i] = op.kind == ActivationKind::relu ? std::max(0.0, z) : z / (1 + std::exp(-z));
  }
}

void reference(const ops::ActivateGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double z = input(v, op, i), s = 1 / (1 + std::exp(-z));
    dx[i] = dy[i] * (op.kind == ActivationKind::relu ? (z > 0 ? 1 : 0) : s + z * s * (1 - s));
  }
}

ops::Activate make(Tensors& t, ActivationKind kind, const Shape& s, DType type, bool bias) {
  const Tensor x = t.in(s, type, -3, 3);
  return {kind, x, bias ? t.in({s.cols()}, type) : Tensor(), t.out(s, type)};
}

ops::ActivateGrad make_grad(Tensors& t, ActivationKind kind, const Shape& s, DType type, bool bias) {
  const Tensor dy = t.in(s, type), x = t.in(s, type, -3, 3);
  return {kind, dy, x, bias ? t.in({s.cols()}, type) : Tensor(), t.over({dy})};
}

std::string name(ActivationKind kind, DType type, const Shape& s, bool bias) {
  return fmt::format("{} {}{}", kind == ActivationKind::relu ? "relu" : "silu", label(type, s),
                     bias ? " with a bias" : "");
}

const Cases<ops::Activate> activation(reference, [](CaseList<ops::Activate>& cases) {
  for (const ActivationKind kind : {ActivationKind::relu, ActivationKind::silu})
    for (const bool bias : {false, true}) {
      for_types_and(kRows, [&](DType type, const Shape& s) {
        cases.add(name(kind, type, s, bias), [=](Tensors& t) { return make(t, kind, s, type, bias); }, {.cpu = {2e-6}});
      });
      for_types_and(kLargeRows, [&](DType type, const Shape& s) {
        cases.unemulated(name(kind, type, s, bias), [=](Tensors& t) { return make(t, kind, s, type, bias); },
                         {.cpu = {2e-6}});
      });
      cases.gradient(
          name(kind, DType::f32, {3, 5}, bias),
          [=](Tensors& t) {
            return make(t, kind, {3, 5}, DType::f32, bias);
          },
          [=](Tensors& t, const ops::Activate& op) {
            const ops::ActivateGrad grad{kind, t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 5})};
            return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
          });
    }
  cases.timed("ffn", [](Tensors& t) { return make(t, ActivationKind::silu, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, ActivationKind::relu, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make(t, ActivationKind::silu, kHugeFfn, DType::bf16, false); });
});

const Cases<ops::ActivateGrad> activation_grad(reference, [](CaseList<ops::ActivateGrad>& cases) {
  for (const ActivationKind kind : {ActivationKind::relu, ActivationKind::silu})
    for (const bool bias : {false, true})
      for_types_and(kRows, [&](DType type, const Shape& s) {
        cases.add(name(kind, type, s, bias), [=](Tensors& t) { return make_grad(t, kind, s, type, bias); },
                  {.cpu = {4e-6}});
      });
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, ActivationKind::silu, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, ActivationKind::relu, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, ActivationKind::silu, kHugeFfn, DType::bf16, false); });
});

}  // namespace
}  // namespace mbench::test
