// Sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models"): between blocks the activations are split along the sequence over the tensor-parallel ranks, so
// norms, dropouts and residuals are kept once. The all-reduces become all-gathers and reduce-scatters of the
// same volume.
#include "strategies/strategies.h"

namespace mbench::strategies {

void write_sequence(const Point& point, Plan& plan) {
  if (!point.sequence_parallel) return;
  const Flow before = plan.hidden;
  plan.hidden = {shard(0), shard(0)};
  for (LinearPlan* linear :
       {&plan.layer.qkv, &plan.layer.proj, &plan.layer.fc1, &plan.layer.fc2, &plan.logits}) {
    if (linear->input == before) linear->input = plan.hidden;
    if (linear->output == before) linear->output = plan.hidden;
  }
  plan.embedding.output = plan.hidden;
}

}  // namespace mbench::strategies
