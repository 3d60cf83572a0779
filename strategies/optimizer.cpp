// What updates weights from gradients, what it keeps for that, and in how many launches.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

using enum StateExtent;

std::vector<OptimizerState> states_of(const Point& p) {
  switch (p.optimizer) {
    case OptimizerKind::adamw: {
      const DType moments = precision_plan(p).moments;
      return {{"Adam first moment", moments, element}, {"Adam second moment", moments, element}};
    }
    case OptimizerKind::sgd:
      return {{"SGD velocity", DType::f32, element}};
    case OptimizerKind::adamw8bit:
      return {{"Adam first moment in 8 bits", DType::u8, element},
              {"scales of Adam's first moment", DType::f32, block},
              {"Adam second moment in 8 bits", DType::u8, element},
              {"scales of Adam's second moment", DType::f32, block}};
    case OptimizerKind::adafactor:
      return {{"Adafactor second moment by rows", DType::f32, row},
              {"Adafactor second moment by columns", DType::f32, column}};
    case OptimizerKind::muon:
      return {{"Muon momentum", DType::f32, element, StateOf::matrices},
              {"Adam first moment", DType::f32, element, StateOf::others},
              {"Adam second moment", DType::f32, element, StateOf::others}};
  }
  return {};
}

constexpr Way kAdamW = one_of("optimizer", "adamw");

MaybeFault refuse(const Point& p) {
  // Sums over the rows and columns of a matrix, and its Newton-Schulz iterations, want all of it: not a part that begins and ends
  // anywhere.
  const bool whole_parameters = p.zero == Zero::none || p.zero == Zero::oss || p.zero == Zero::oss_sdp;
  if ((p.optimizer == OptimizerKind::adafactor || p.optimizer == OptimizerKind::muon) && !whole_parameters)
    return infeasible({one_of("zero", "0|oss|oss+sdp")}, "optimizer {} with zero {}, which cuts parameters anywhere",
                      name_of(p.optimizer), name_of(p.zero));
  // The biases of all experts are one matrix, and a rank would have neither all of its rows nor all of its columns.
  if (p.optimizer == OptimizerKind::adafactor && p.model.experts > 0 && p.model.parts().bias.experts && p.ep > 1 &&
      p.expert_tp() > 1)
    return not_built_in({kAdamW, exactly("etp", 1), exactly("ep", 1)},
                        "optimizer adafactor with biases of experts, ep {} and etp {}", p.ep, p.expert_tp());
  if (p.moments_in_bf16 && p.optimizer != OptimizerKind::adamw)
    return infeasible({kAdamW, one_of("precision.moments", "f32")}, "precision.moments bf16 with optimizer {}",
                      name_of(p.optimizer));
  if (p.main_weights_in_bf16 && p.optimizer != OptimizerKind::adamw && p.optimizer != OptimizerKind::adamw8bit)
    return not_built_in({one_of("optimizer", "adamw|adamw8bit"), one_of("precision.main_weights", "f32")},
                        "precision.main_weights bf16 with optimizer {}", name_of(p.optimizer));
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.optimizer = {p.optimizer, states_of(p), p.fused_optimizer};
}

}  // namespace

Strategy optimizer() {
  return {"optimizer", {"optimizer", "fused_optimizer"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
