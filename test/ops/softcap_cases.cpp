#include "engine/ops/softcap.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

constexpr float kCap = 2.5f;

void reference(const ops::Softcap& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = kCap * std::tanh(x[i] / kCap);
}

void reference(const ops::SoftcapGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double t = std::tanh(x[i] / kCap);
    dx[i] = dy[i] * (1 - t * t);
  }
}

ops::Softcap make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type, -9, 9);
  return {x, t.over({x}), kCap};
}

ops::SoftcapGrad make_grad(Tensors& t, const Shape& s, DType type) {
  const Tensor dy = t.in(s, type), x = t.in(s, type, -9, 9);
  return {dy, x, t.over({dy}), kCap};
}

const Cases<ops::Softcap> softcap(reference, [](CaseList<ops::Softcap>& cases) {
  const Within within{.cpu = {2e-6}, .kernel = {2e-6, 4e-6}};
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(
        label(type, Shape{n}), [=](Tensors& t) { return make(t, {n}, type); }, within);
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(
        label(type, s), [=](Tensors& t) { return make(t, s, type); }, within);
  });
  cases.gradient(
      "[7]",
      [](Tensors& t) {
        const Tensor x = t.in({7}, DType::f32, -4, 4);
        return ops::Softcap{x, t.out({7}), kCap};
      },
      [](Tensors& t, const ops::Softcap& op) {
        const ops::SoftcapGrad grad{t.in({7}, DType::f32), op.x, t.out({7}), kCap};
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
      });
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  cases.huge("logits", [](Tensors& t) { return make(t, kHugeLogits, DType::bf16); });
});

const Cases<ops::SoftcapGrad> softcap_grad(reference, [](CaseList<ops::SoftcapGrad>& cases) {
  const Within within{.cpu = {4e-6}, .kernel = {4e-6, 4e-6}};
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(
        label(type, Shape{n}), [=](Tensors& t) { return make_grad(t, {n}, type); }, within);
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16); });
  cases.huge("logits", [](Tensors& t) { return make_grad(t, kHugeLogits, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
