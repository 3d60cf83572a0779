#include "engine/nn/runtime/captured.h"

namespace mbench::nn {

bool captured_whole(const CapturedParts& parts, const BranchSpec& branch) {
  if (std::holds_alternative<MlpSpec>(branch.mixer)) return parts.has(CapturedPart::mlp);
  if (std::holds_alternative<MoeSpec>(branch.mixer)) return parts.has(CapturedPart::moe);
  const bool attention =
      std::holds_alternative<AttentionSpec>(branch.mixer) || std::holds_alternative<LatentAttentionSpec>(branch.mixer);
  return attention && parts.has(CapturedPart::attention);
}

Tensor CapturedPiece::own_input(Context& c, bool captured, const Tensor& input) const {
  if (!captured || joined || !input || !c.keeps().captured_inputs) return input;
  const Tensor own = c.activation(input.shape(), "input of a captured part");
  c.device.copy(input, own);
  return own;
}

}  // namespace mbench::nn
