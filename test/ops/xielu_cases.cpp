#include <cmath>

#include "engine/ops/xielu.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double softplus(double a) {
  return std::log1p(std::exp(a));
}

double input(const Doubles& v, const Tensor& x, const Tensor& bias, std::size_t i) {
  return v[x][i] + (bias ? v[bias][i % v[bias].size()] : 0);
}

double below_zero(double z) {
  return std::expm1(std::min(z, -1e-6)) - z;
}

void reference(const ops::XIelu& op, Doubles& v) {
  const double p = softplus(v[op.alpha_p][0]), n = 0.5 + softplus(v[op.alpha_n][0]);
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double z = input(v, op.x, op.bias, i);
    y[i] = (z > 0 ? p * z * z : n * below_zero(z)) + 0.5 * z;
  }
}

ops::XIelu make(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor x = t.in(s, type, -3, 3);
  return {x, bias ? t.in({s.cols()}, type) : Tensor(), t.in({1}, type, 0, 0.5), t.in({1}, type, -1.5, -0.5),
          t.out(s, type)};
}

void reference(const ops::XIeluGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  const double alpha_p = v[op.alpha_p][0], alpha_n = v[op.alpha_n][0];
  const double p = softplus(alpha_p), n = 0.5 + softplus(alpha_n);
  double of_p = 0, of_n = 0;
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double z = input(v, op.x, op.bias, i);
    dx[i] = dy[i] * ((z > 0 ? 2 * p * z : n * std::expm1(std::min(z, -1e-6))) + 0.5);
    (z > 0 ? of_p : of_n) += dy[i] * (z > 0 ? z * z : below_zero(z));
  }
  if (!op.dalpha_p) return;
  v.out(op.dalpha_p)[0] += of_p / (1 + std::exp(-alpha_p));
  v.out(op.dalpha_n)[0] += of_n / (1 + std::exp(-alpha_n));
}

// In place; the alphas' gradients of the type that `sums` says, or none.
ops::XIeluGrad make_grad(Tensors& t, const Shape& s, DType type, bool bias, std::optional<DType> sums) {
  const Tensor dy = t.in(s, type), x = t.in(s, type, -3, 3);
  ops::XIeluGrad op{dy,
                    x,
                    bias ? t.in({s.cols()}, type) : Tensor(),
                    t.in({1}, type, 0, 0.5),
                    t.in({1}, type, -1.5, -0.5),
                    t.over({dy}),
                    {},
                    {}};
  if (sums) op.dalpha_p = t.inout({1}, *sums), op.dalpha_n = t.inout({1}, *sums);
  return op;
}

std::string name(DType type, const Shape& s, bool bias) {
  return label(type, s) + (bias ? " with a bias" : "");
}

const Cases<ops::XIelu> xielu(reference, [](CaseList<ops::XIelu>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); }, {.cpu = {4e-6}});
    });
    cases.gradient(
        bias ? "[3, 5] with a bias" : "[3, 5]",
        [=](Tensors& t) {
          return make(t, {3, 5}, DType::f32, bias);
        },
        [](Tensors& t, const ops::XIelu& op) {
          const ops::XIeluGrad grad{
              t.in({3, 5}, DType::f32), op.x, op.bias, op.alpha_p, op.alpha_n, t.out({3, 5}), t.inout({1}, DType::f32),
              t.inout({1}, DType::f32)};
          return Backward{grad,
                          {op.y, grad.dy, {{op.x, grad.dx}, {op.alpha_p, grad.dalpha_p}, {op.alpha_n, grad.dalpha_n}}}};
        });
  }
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16, false); });
});

const Cases<ops::XIeluGrad> xielu_grad(reference, [](CaseList<ops::XIeluGrad>& cases) {
  const Within within{.cpu = {1e-5, 4e-6}, .kernel = {1e-5, 4e-6}, .gpu = 4};
  for (const bool bias : {false, true})
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(
          name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias, bias ? DType::f32 : type); },
          within);
    });
  cases.add(
      "frozen",
      [](Tensors& t) {
        return make_grad(t, {7, 33}, DType::f32, false, std::nullopt);
      },
      within);
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfn, DType::f32, false, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false, DType::f32); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeFfn, DType::bf16, false, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
