#include "engine/nn/layers/plan_inside.h"

namespace mbench::nn {

std::unique_ptr<Plan> plan_inside(const Plan& plan) {
  auto inside = std::make_unique<Plan>(plan);
  LinearPlan &column = inside->linear[static_cast<std::size_t>(Role::column)],
             &row = inside->linear[static_cast<std::size_t>(Role::row)];
  column.input = column.consumed;
  row.output = row.gemm;
  return inside;
}

ExchangesOutside::ExchangesOutside(const Plan& plan)
    : gather(Transition::between(plan.role(Role::column).input, plan.role(Role::column).consumed, plan.mesh)),
      reduce(Transition::between(plan.role(Role::row).gemm, plan.role(Role::row).output, plan.mesh)) {}

}  // namespace mbench::nn
