// As whose program a point runs: what its graph keeps and fuses, and whose host costs a simulation charges.
#pragma once
#include <string>

#include "engine/spec/choices.h"

namespace mbench {

struct FrameworkSpec {
  Graph graph = Graph::fused;
  // Of graph megatron_core: Megatron's --cross-entropy-loss-fusion with its implementation, and whether weights' gradients
  // are added to their buffer by the products that make them.
  CrossEntropyFusion cross_entropy_fusion = CrossEntropyFusion::te;
  bool gradient_accumulation_fusion = true;
  // Of the same: whether experts' products are one call or one expert's after the other's (--moe-grouped-gemm), whether a
  // causal mask comes with every micro batch (--no-create-attention-mask-in-dataloader), and whether Transformer Engine
  // has the layers (--transformer-impl).
  bool grouped_experts = true;
  bool mask_in_batch = true;
  bool transformer_engine = true;
  bool rope_fusion = true;
  bool deterministic = false;  // simulation: PyTorch's deterministic algorithms, which fill every new tensor
  // Whose host costs a simulation charges: the name of a framework, or the path of its file.
  std::string framework = "mbench";

  bool operator==(const FrameworkSpec&) const = default;
};

}  // namespace mbench
