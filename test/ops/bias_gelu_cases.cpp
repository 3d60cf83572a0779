#include "engine/ops/bias_gelu.h"
#include "test/ops/cases.h"
#include "test/ops/gelu.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

Values sum_of(const Doubles& v, const Tensor& x, const Tensor& bias) {
  Values z = v[x];
  if (bias)
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += v[bias][i % v[bias].size()];
  return z;
}

void reference(const ops::BiasGelu& op, Doubles& v) {
  const Values z = sum_of(v, op.x, op.bias);
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = gelu(z[i]);
  if (op.sum) v.out(op.sum) = z;
}

enum class Sum { none, kept };

ops::BiasGelu make(Tensors& t, const Shape& shape, DType type, bool bias, Sum sum = Sum::none) {
  const Tensor x = t.in(shape, type, -6, 6);
  ops::BiasGelu op{x, bias ? t.in({shape.cols()}, type) : Tensor(), t.out(shape, type)};
  if (sum == Sum::kept) op.sum = t.over({x});
  return op;
}

void reference(const ops::BiasGeluGrad& op, Doubles& v) {
  const Values z = sum_of(v, op.x, op.bias);
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * gelu_slope(z[i]);
}

ops::BiasGeluGrad make_grad(Tensors& t, const Shape& shape, DType type, bool bias) {
  const Tensor dy = t.in(shape, type), x = t.in(shape, type, -6, 6);
  return {dy, x, bias ? t.in({shape.cols()}, type) : Tensor(), t.over({dy})};
}

std::string name(DType type, const Shape& s, bool bias) {
  return label(type, s) + (bias ? " with a bias" : "");
}

const Cases<ops::BiasGelu> bias_gelu(reference, [](CaseList<ops::BiasGelu>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); });
      cases.add(name(type, s, bias) + ", its sum kept", [=](Tensors& t) { return make(t, s, type, bias, Sum::kept); });
    });
    for_types_and(kLargeRows, [&](DType type, const Shape& s) {
      cases.unemulated(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); });
    });
  }
  for (const DType type : kFloatTypes)
    cases.add(fmt::format("{} far from zero", name_of(type)), [=](Tensors& t) {
      const Tensor x = t.values({1, 6}, type, {-60000, -100, -30, 30, 100, 60000});
      return ops::BiasGelu{x, Tensor(), t.out({1, 6}, type)};
    });
  cases.gradient(
      "[3, 5]",
      [](Tensors& t) {
        return make(t, {3, 5}, DType::f32, true);
      },
      [](Tensors& t, const ops::BiasGelu& op) {
        const ops::BiasGeluGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 5})};
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
      });
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32, true); });
  cases.timed("ffn bf16", [](Tensors& t) { return make(t, kFfn, DType::bf16, true); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, true); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16, true, Sum::kept); });
});

const Cases<ops::BiasGeluGrad> bias_gelu_grad(reference, [](CaseList<ops::BiasGeluGrad>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias); }, {.cpu = {2e-6}});
    });
    for_types_and(kLargeRows, [&](DType type, const Shape& s) {
      cases.unemulated(name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias); }, {.cpu = {2e-6}});
    });
  }
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfn, DType::f32, true); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeFfn, DType::bf16, true); });
});

}  // namespace
}  // namespace mbench::test
