#include "engine/ops/dispatch.h"
#include "test/ops/cases.h"
#include "test/ops/moe_plan.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Dispatch& op, Doubles& v) {
  const Values &x = v[op.x], &pairs = v[op.pairs];
  Values& y = v.out(op.y);
  const std::int64_t n = op.x.shape().cols(), end = op.x.shape().rows() * op.k;
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto pair = static_cast<std::int64_t>(pairs[row]);
    for (std::int64_t i = 0; i < n; ++i) y[row * n + i] = pair >= 0 && pair < end ? x[pair / op.k * n + i] : 0;
  }
}

ops::Dispatch make(Tensors& t, const PlanSizes& z, DType type, const Tensor& pairs) {
  return {t.in({z.tokens, z.width}, type), pairs, z.k, t.out({z.rows(), z.width}, type)};
}
ops::Dispatch make(Tensors& t, const PlanSizes& z, DType type) {
  return make(t, z, type, t.values({z.rows()}, DType::i64, PlanValues(z).pairs));
}

void reference(const ops::DispatchGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &rows = v[op.rows];
  Values& dx = v.out(op.dx);
  const std::int64_t n = op.dx.shape().cols(), k = op.rows.shape().cols(), end = op.dy.shape().rows();
  dx.assign(dx.size(), 0);
  for (std::size_t pair = 0; pair < rows.size(); ++pair) {
    const auto row = static_cast<std::int64_t>(rows[pair]);
    if (row < 0 || row >= end) continue;
    for (std::int64_t i = 0; i < n; ++i) dx[static_cast<std::int64_t>(pair) / k * n + i] += dy[row * n + i];
  }
}

ops::DispatchGrad make_grad(Tensors& t, const PlanSizes& z, DType type, const Tensor& rows) {
  return {t.in({z.rows(), z.width}, type), rows, t.out({z.tokens, z.width}, type)};
}
ops::DispatchGrad make_grad(Tensors& t, const PlanSizes& z, DType type) {
  return make_grad(t, z, type, t.values({z.tokens, z.k}, DType::i64, PlanValues(z).rows));
}

std::string label_of(DType type, const PlanSizes& z) {
  return fmt::format("{} x {}", label(type, {z.tokens, z.width}), z.k);
}

const Cases<ops::Dispatch> dispatch(reference, [](CaseList<ops::Dispatch>& cases) {
  const Within exact{.cpu = kExact, .kernel = kExact};
  for_types_and(kPlans, [&](DType type, const PlanSizes& z) {
    cases.add(
        label_of(type, z), [=](Tensors& t) { return make(t, z, type); }, exact);
    cases.add(
        label_of(type, z) + ", pairs beyond the last",
        [=](Tensors& t) { return make(t, z, type, t.ids({z.rows()}, z.pairs() + 5)); }, exact);
  });
  for_types_and(kLargePlans, [&](DType type, const PlanSizes& z) {
    cases.unemulated(
        label_of(type, z), [=](Tensors& t) { return make(t, z, type); }, exact);
  });
  for (const PlanSizes& z : {PlanSizes{1, 1, 2}, PlanSizes{7, 3, 5}})
    cases.gradient(
        label_of(DType::f32, z), [=](Tensors& t) { return make(t, z, DType::f32); },
        [=](Tensors& t, const ops::Dispatch& op) {
          const ops::DispatchGrad grad = make_grad(t, z, DType::f32);
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  cases.timed("hidden", [](Tensors& t) { return make(t, kBenchPlan, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallPlan, DType::bf16); });
  cases.huge("hidden",
             [](Tensors& t) { return make(t, kHugePlan, DType::bf16, t.ids({kHugePlan.rows()}, kHugePlan.pairs())); });
});

const Cases<ops::DispatchGrad> dispatch_grad(reference, [](CaseList<ops::DispatchGrad>& cases) {
  const Within within{.cpu = {1e-6}, .kernel = kExact};
  for_types_and(kPlans, [&](DType type, const PlanSizes& z) {
    cases.add(
        label_of(type, z), [=](Tensors& t) { return make_grad(t, z, type); }, within);
    cases.add(
        label_of(type, z) + ", rows beyond the last",
        [=](Tensors& t) {
          return make_grad(t, z, type, t.ids({z.tokens, z.k}, z.rows() + 5));
        },
        within);
  });
  for_types_and(kLargePlans, [&](DType type, const PlanSizes& z) {
    cases.unemulated(
        label_of(type, z), [=](Tensors& t) { return make_grad(t, z, type); }, within);
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kBenchPlan, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmallPlan, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) {
    return make_grad(t, kHugePlan, DType::bf16, t.ids({kHugePlan.tokens, kHugePlan.k}, kHugePlan.rows()));
  });
});

}  // namespace
}  // namespace mbench::test
