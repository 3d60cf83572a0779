#include "engine/ops/combine.h"
#include "test/ops/cases.h"
#include "test/ops/moe_plan.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Combine& op, Doubles& v) {
  const Values &x = v[op.x], &rows = v[op.rows], &weights = v[op.weights];
  Values& y = v.out(op.y);
  const std::int64_t n = op.y.shape().cols(), k = op.rows.shape().cols(), end = op.x.shape().rows();
  y.assign(y.size(), 0);
  for (std::size_t pair = 0; pair < rows.size(); ++pair) {
    const auto row = static_cast<std::int64_t>(rows[pair]);
    if (row < 0 || row >= end) continue;
    for (std::int64_t i = 0; i < n; ++i)
      y[static_cast<std::int64_t>(pair) / k * n + i] += weights[pair] * x[row * n + i];
  }
}

ops::Combine make(Tensors& t, const PlanSizes& z, DType type, const Tensor& rows) {
  return {t.in({z.rows(), z.width}, type), rows, t.in({z.tokens, z.k}, DType::f32, 0, 1),
          t.out({z.tokens, z.width}, type)};
}
ops::Combine make(Tensors& t, const PlanSizes& z, DType type) {
  return make(t, z, type, t.values({z.tokens, z.k}, DType::i64, PlanValues(z).rows));
}

void reference(const ops::CombineGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &rows = v[op.rows], &weights = v[op.weights], &pairs = v[op.pairs];
  Values &dx = v.out(op.dx), &dweights = v.out(op.dweights);
  const std::int64_t n = op.x.shape().cols(), k = op.rows.shape().cols();
  for (std::size_t pair = 0; pair < rows.size(); ++pair) {
    dweights[pair] = 0;
    const auto row = static_cast<std::int64_t>(rows[pair]);
    if (row < 0) continue;
    for (std::int64_t i = 0; i < n; ++i)
      dweights[pair] += dy[static_cast<std::int64_t>(pair) / k * n + i] * x[row * n + i];
  }
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto pair = static_cast<std::int64_t>(pairs[row]);
    for (std::int64_t i = 0; i < n; ++i) dx[row * n + i] = pair < 0 ? 0 : weights[pair] * dy[pair / k * n + i];
  }
}

ops::CombineGrad make_grad(Tensors& t, const PlanSizes& z, DType type, const Tensor& rows, const Tensor& pairs) {
  const Tensor x = t.in({z.rows(), z.width}, type);
  return {t.in({z.tokens, z.width}, type), x, rows, t.in({z.tokens, z.k}, DType::f32, 0, 1), pairs, t.over({x}),
          t.out({z.tokens, z.k})};
}
ops::CombineGrad make_grad(Tensors& t, const PlanSizes& z, DType type) {
  const PlanValues plan(z);
  return make_grad(t, z, type, t.values({z.tokens, z.k}, DType::i64, plan.rows),
                   t.values({z.rows()}, DType::i64, plan.pairs));
}

std::string label_of(DType type, const PlanSizes& z) {
  return fmt::format("{} x {}", label(type, {z.tokens, z.width}), z.k);
}

const Cases<ops::Combine> combine(reference, [](CaseList<ops::Combine>& cases) {
  const Within within{.cpu = {1e-6}, .kernel = {1e-6, 4e-6}};
  for_types_and(kPlans, [&](DType type, const PlanSizes& z) {
    cases.add(
        label_of(type, z), [=](Tensors& t) { return make(t, z, type); }, within);
    cases.add(
        label_of(type, z) + ", rows beyond the last",
        [=](Tensors& t) {
          return make(t, z, type, t.ids({z.tokens, z.k}, z.rows() + 5));
        },
        within);
  });
  for_types_and(kLargePlans, [&](DType type, const PlanSizes& z) {
    cases.unemulated(
        label_of(type, z), [=](Tensors& t) { return make(t, z, type); }, within);
  });
  for (const PlanSizes& z : {PlanSizes{1, 1, 2}, PlanSizes{7, 3, 5}})
    cases.gradient(
        label_of(DType::f32, z), [=](Tensors& t) { return make(t, z, DType::f32); },
        [=](Tensors& t, const ops::Combine& op) {
          ops::CombineGrad grad = make_grad(t, z, DType::f32);
          grad.x = op.x, grad.weights = op.weights;
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.weights, grad.dweights}}}};
        });
  cases.timed("hidden", [](Tensors& t) { return make(t, kBenchPlan, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallPlan, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) {
    return make(t, kHugePlan, DType::bf16, t.ids({kHugePlan.tokens, kHugePlan.k}, kHugePlan.rows()));
  });
});

const Cases<ops::CombineGrad> combine_grad(reference, [](CaseList<ops::CombineGrad>& cases) {
  const Within within{.cpu = {2e-5}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  for_types_and(kPlans, [&](DType type, const PlanSizes& z) {
    cases.add(
        label_of(type, z), [=](Tensors& t) { return make_grad(t, z, type); }, within);
  });
  for_types_and(kLargePlans, [&](DType type, const PlanSizes& z) {
    cases.unemulated(
        label_of(type, z), [=](Tensors& t) { return make_grad(t, z, type); }, within);
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kBenchPlan, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallPlan, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) {
    return make_grad(t, kHugePlan, DType::bf16, t.ids({kHugePlan.tokens, kHugePlan.k}, kHugePlan.rows()),
                     t.ids({kHugePlan.rows()}, kHugePlan.pairs()));
  });
});

}  // namespace
}  // namespace mbench::test
