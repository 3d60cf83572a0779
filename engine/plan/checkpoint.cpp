#include "engine/plan/checkpoint.h"

#include "engine/plan/plan.h"
#include "engine/point/adapter_weights.h"

namespace mbench {

double checkpoint_bytes(const Plan& plan) {
  const PrecisionPlan& precision = plan.precision;
  const std::size_t of_element = size_of(precision.model) + (precision.main_weights() ? size_of(precision.main) : 0);
  double bytes = 0;
  // Of adapters only what is trained is written.
  for (const WeightSpec& w :
       plan.adapter.on() ? adapter_weights_of(plan.model, plan.adapter) : weights_of(plan.model, plan.vocab)) {
    if (w.tied) continue;
    bytes += static_cast<double>(w.shape.numel()) * static_cast<double>(of_element);
    for (const OptimizerState& state : plan.optimizer.states)
      if (state.holds(w))
        bytes += static_cast<double>(elements_of(state.extent, w.shape)) * static_cast<double>(size_of(state.dtype));
  }
  return bytes;
}

}  // namespace mbench
