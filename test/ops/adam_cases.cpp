#include "engine/ops/adam.h"
#include "test/ops/cases.h"
#include "test/ops/ranges.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// The steps that by_step stands for.
constexpr float kStepsTaken = 5;

void reference(const ops::Adam& op, Doubles& v) {
  const Values& grad = v[op.grad];
  Values &p = v.out(op.param), &m = v.out(op.m), &v2 = v.out(op.v);
  const double t = op.by_step ? kStepsTaken : static_cast<double>(op.step);
  const double b1 = op.beta1, b2 = op.beta2;
  const double lr = op.by_step ? v[op.by_step][ops::kStepRate] : op.lr,
               grad_scale = op.by_step ? v[op.by_step][ops::kStepGradScale] : op.grad_scale;
  if (std::isnan(grad_scale)) {
    if (op.model) v.out(op.model);
    return;
  }
  for (std::int64_t i = 0; i < op.param.numel(); ++i) {
    const double g = grad_scale * grad[i];
    m[i] = b1 * m[i] + (1 - b1) * g;
    v2[i] = b2 * v2[i] + (1 - b2) * g * g;
    const double mean = m[i] / (1 - std::pow(b1, t)), square = v2[i] / (1 - std::pow(b2, t));
    const double decay = is_within(op.undecayed, i) ? 0 : op.weight_decay;
    p[i] -= lr * (mean / (std::sqrt(square) + op.eps) + decay * p[i]);
  }
  if (op.model) v.out(op.model) = p;
}

ops::Adam make(Tensors& t, std::int64_t n, DType grad, DType model, std::int64_t step = 3, DType moments = DType::f32,
               DType param = DType::f32) {
  ops::Adam op;
  op.param = t.inout({n}, param), op.grad = t.in({n}, grad, -64, 64);
  op.m = t.inout({n}, moments), op.v = t.inout({n}, moments, 0, 1);
  if (model != DType::f32) op.model = t.out({n}, model);
  op.lr = 0.01f, op.beta2 = 0.95f, op.weight_decay = 0.1f, op.grad_scale = 1.0f / 64, op.step = step;
  return op;
}

// Rate, scales and factor in memory; a factor that is not a number: the step is skipped.
ops::Adam make_by_step(Tensors& t, std::int64_t n, DType grad, DType model, double factor) {
  ops::Adam op = make(t, n, grad, DType::f32);
  if (model != DType::f32) op.model = t.inout({n}, model);
  Values now(ops::kAdamStep, 0);
  now[ops::kStepRate] = 0.02;
  now[ops::kStepMScale] = ops::bias_correction(op.beta1, static_cast<std::int64_t>(kStepsTaken));
  now[ops::kStepVScale] = ops::bias_correction(op.beta2, static_cast<std::int64_t>(kStepsTaken));
  now[ops::kStepGradScale] = factor;
  op.by_step = t.values({ops::kAdamStep}, DType::f32, now);
  return op;
}

const Cases<ops::Adam> adam(reference, [](CaseList<ops::Adam>& cases) {
  const Within within{.cpu = {2e-7, 1e-5}, .kernel = {1e-7, 4e-6}};
  for (const DType grad : kFloatTypes)
    for (const DType model : kFloatTypes) {
      const auto add = [&](std::int64_t n, std::int64_t step, bool emulated) {
        const std::string name =
            fmt::format("[{}], gradients in {}, weights in {}, step {}", n, name_of(grad), name_of(model), step);
        const auto made = [=](Tensors& t) { return make(t, n, grad, model, step); };
        emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
      };
      for (const std::int64_t n : {1, 33, 1027}) add(n, 3, true);
      add(1027, 1, true);
      add(30000, 4, false);
    }
  for (const double factor : {1.0 / 32, std::nan("")})
    for (const DType type : {DType::f32, DType::bf16})
      for (const std::int64_t n : {33, 1027})
        cases.add(
            fmt::format("[{}] in {}, numbers of the step in memory, factor {}", n, name_of(type), factor),
            [=](Tensors& t) { return make_by_step(t, n, type, type, factor); }, within);
  for (const std::int64_t n : {33, 1027})
    cases.add(
        fmt::format("[{}], moments in bf16", n),
        [n](Tensors& t) { return make(t, n, DType::bf16, DType::bf16, 3, DType::bf16); }, within);
  for (const DType grad : {DType::f32, DType::bf16})
    for (const DType moments : {DType::f32, DType::bf16})
      for (const std::int64_t n : {33, 1027})
        cases.add(
            fmt::format("[{}], weights in bf16 alone, gradients in {}, moments in {}", n, name_of(grad),
                        name_of(moments)),
            [=](Tensors& t) { return make(t, n, grad, DType::f32, 3, moments, DType::bf16); }, within);
  for_types_and(kRangeSets, [&](DType type, const RangeSet& set) {
    cases.add(
        fmt::format("gradients in {}, no decay of {}", name_of(type), set.name),
        [type, &set](Tensors& t) {
          ops::Adam op = make(t, set.length, type, DType::f32);
          op.weight_decay = 0.5f, op.undecayed = set.list;
          return op;
        },
        within);
  });
  cases.unemulated(
      "[100000]", [](Tensors& t) { return make(t, 100000, DType::f32, DType::f32); }, within);
  cases.timed("16 Mi", [](Tensors& t) { return make(t, 16 << 20, DType::f32, DType::f32); });
  cases.timed("16 Mi bf16", [](Tensors& t) { return make(t, 16 << 20, DType::bf16, DType::bf16); });
  cases.timed("16 Mi, weights in bf16 alone",
              [](Tensors& t) { return make(t, 16 << 20, DType::bf16, DType::f32, 3, DType::bf16, DType::bf16); });
  cases.huge("8 Gi", [](Tensors& t) { return make(t, std::int64_t{8} << 30, DType::f32, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
