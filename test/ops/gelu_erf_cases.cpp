#include <numbers>

#include "engine/ops/gelu_erf.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double input(const Doubles& v, const Tensor& x, const Tensor& bias, std::size_t i) {
  return v[x][i] + (bias ? v[bias][i % v[bias].size()] : 0);
}
double phi(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

void reference(const ops::GeluErf& op, Doubles& v) {
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double z = input(v, op.x, op.bias, i);
    y[i] = z * phi(z);
  }
}

ops::GeluErf make(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor x = t.in(s, type, -6, 6);
  return {x, bias ? t.in({s.cols()}, type) : Tensor(), t.out(s, type)};
}

void reference(const ops::GeluErfGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double z = input(v, op.x, op.bias, i);
    dx[i] = dy[i] * (phi(z) + z * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi));
  }
}

ops::GeluErfGrad make_grad(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor dy = t.in(s, type), x = t.in(s, type, -6, 6);
  return {dy, x, bias ? t.in({s.cols()}, type) : Tensor(), t.over({dy})};
}

std::string name(DType type, const Shape& s, bool bias) {
  return label(type, s) + (bias ? " with a bias" : "");
}

const Cases<ops::GeluErf> gelu_erf(reference, [](CaseList<ops::GeluErf>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); }, {.cpu = {2e-6}});
    });
    cases.gradient(
        bias ? "[3, 5] with a bias" : "[3, 5]",
        [=](Tensors& t) {
          return make(t, {3, 5}, DType::f32, bias);
        },
        [](Tensors& t, const ops::GeluErf& op) {
          const ops::GeluErfGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 5})};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  }
  for (const DType type : kFloatTypes)
    cases.add(fmt::format("{} far from zero", name_of(type)), [=](Tensors& t) {
      const Tensor x = t.values({1, 6}, type, {-60000, -100, -30, 30, 100, 60000});
      return ops::GeluErf{x, Tensor(), t.out({1, 6}, type)};
    });
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16, false); });
});

const Cases<ops::GeluErfGrad> gelu_erf_grad(reference, [](CaseList<ops::GeluErfGrad>& cases) {
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
