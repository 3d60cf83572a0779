// Tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"): the first linear layer of a block is split by
// output, the second by input, so that a block communicates once forward and once backward. Heads go with the
// QKV rows. The embedding table is split by vocabulary; its product is a sum over shards, and the logits stay
// split.
#include "strategies/strategies.h"

namespace mbench::strategies {

void write_tensor(const Point& point, Plan& plan) {
  plan.mesh.sizes[static_cast<int>(Axis::tp)] = static_cast<int>(point.tp);
  constexpr Flow copied{replicate, partial};  // a value every shard of the weight consumes
  constexpr Flow summed{partial, replicate};  // a sum over shards
  constexpr Flow split_last{shard(2), shard(2)};
  plan.hidden = {replicate, replicate};
  const LinearPlan column{shard(0), plan.hidden, copied, split_last, split_last};
  const LinearPlan row{shard(1), split_last, split_last, summed, plan.hidden};
  plan.layer = {.qkv = column, .proj = row, .fc1 = column, .fc2 = row};
  plan.embedding = {shard(0), {replicate, replicate}, {replicate, replicate}, summed, plan.hidden};
  plan.logits = column;
}

}  // namespace mbench::strategies
