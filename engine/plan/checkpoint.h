// What a training run writes to go on from later.
#pragma once

namespace mbench {

struct Plan;

// Bytes of one copy of all that lasts from step to step, over all ranks: weights, their originals where kept separately, and optimizer
// state. With AdamW on bf16 weights that is 14 bytes a parameter. Megatron-LM's checkpoint of a trillion parameters has the same (13.8 TB:
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, 5.10).
double checkpoint_bytes(const Plan& plan);

}  // namespace mbench
