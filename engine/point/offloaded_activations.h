// Which activations that a forward keeps lie in host memory until their backward: those of whole layers (Transformer Engine's
// cpu_offload, --cpu-offloading-num-layers), or of parts of layers (Megatron-Core's --fine-grained-activation-offloading).
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/base/flags.h"

namespace mbench {

// What a part's forward keeps, its input included and its output not. The part behind it has that.
enum class OffloadedPart : std::uint8_t {
  attn_norm,   // the norm before attention
  qkv_linear,  // the linear layers that make queries, keys and values
  core_attn,   // from queries, keys and values to the context
  attn_proj,   // the linear layer behind it
  mlp_norm,    // the norm before a feed-forward block or experts
  expert_fc1,  // the first linear layer of experts
  moe_act      // the activation of experts
};
inline constexpr int kOffloadedParts = 7;
using OffloadedParts = Flags<OffloadedPart>;

// The spec's field `offload_activations`: "none", "layers:N", or parts.
struct OffloadedActivations {
  std::int64_t layers = 0;  // the first so many of each chunk of a stage
  OffloadedParts parts;
  bool any() const { return layers > 0 || parts.any(); }
  bool operator==(const OffloadedActivations&) const = default;
};

// Reads "none", "layers:N", a list of parts, or parts joined by "+"; bad_input at `where` for anything else.
OffloadedActivations read_offloaded_activations(const nlohmann::json& value, const std::string& where);
// What it accepts, as JSON Schema.
nlohmann::ordered_json offloaded_activations_schema();
// The text that it is read from: "none", "layers:2" or "core_attn+moe_act".
std::string name_of(const OffloadedActivations& offloaded);
std::string_view name_of(OffloadedPart part);

}  // namespace mbench
