#include "engine/ops/sgd.h"
#include "test/ops/cases.h"
#include "test/ops/ranges.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Sgd& op, Doubles& v) {
  const Values& grad = v[op.grad];
  Values &p = v.out(op.param), &b = v.out(op.velocity);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double decay = is_within(op.undecayed, static_cast<std::int64_t>(i)) ? 0 : op.weight_decay;
    b[i] = op.momentum * b[i] + op.grad_scale * grad[i] + decay * p[i];
    p[i] -= op.lr * b[i];
  }
  if (op.model) v.out(op.model) = p;
}

ops::Sgd make(Tensors& t, std::int64_t n, DType grad, DType model) {
  ops::Sgd op;
  op.param = t.inout({n}, DType::f32), op.grad = t.in({n}, grad, -64, 64);
  op.velocity = t.inout({n}, DType::f32);
  if (model != DType::f32) op.model = t.out({n}, model);
  op.lr = 0.01f, op.weight_decay = 0.1f, op.grad_scale = 1.0f / 64;
  return op;
}

const Cases<ops::Sgd> sgd(reference, [](CaseList<ops::Sgd>& cases) {
  const Within within{.cpu = {2e-7, 1e-6}, .kernel = {1e-7, 1e-6}};
  for (const DType grad : kFloatTypes)
    for (const DType model : kFloatTypes) {
      for (const std::int64_t n : {1, 33, 1027})
        cases.add(
            fmt::format("[{}], gradients in {}, weights in {}", n, name_of(grad), name_of(model)),
            [=](Tensors& t) { return make(t, n, grad, model); }, within);
      cases.unemulated(
          fmt::format("[30000], gradients in {}, weights in {}", name_of(grad), name_of(model)),
          [=](Tensors& t) { return make(t, 30000, grad, model); }, within);
    }
  for_types_and(kRangeSets, [&](DType type, const RangeSet& set) {
    cases.add(
        fmt::format("gradients in {}, no decay of {}", name_of(type), set.name),
        [type, &set](Tensors& t) {
          ops::Sgd op = make(t, set.length, type, DType::f32);
          op.undecayed = set.list;
          return op;
        },
        within);
  });
  cases.timed("16 Mi", [](Tensors& t) { return make(t, 16 << 20, DType::f32, DType::f32); });
  cases.huge("8 Gi", [](Tensors& t) { return make(t, std::int64_t{8} << 30, DType::f32, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
