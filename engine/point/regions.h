// Parts of a layer that recompute may drop. What a forward keeps of a region is freed after it. A second forward of the region makes it
// again before the region's backward (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; Megatron's --recompute-granularity
// and --recompute-modules).
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/base/flags.h"

namespace mbench {

enum class Region : std::uint8_t {
  layer,           // of the layer only its input is kept
  core_attention,  // of the attention core only Q, K and V are kept
  mla_up_proj,     // of latent attention's queries, keys and values only the latents are kept
  mlp,             // of a dense feed-forward block only its input is kept
  moe,             // of an MoE only its input is kept
  moe_act,         // of experts' feed-forward blocks the activation's output is recomputed from its input
  norm,  // a norm's output is recomputed from its input; where the branch behind it is dropped too, together with it
  // torchtitan's selective activation checkpointing by op. It keeps a layer's input, the output of the attention core and every second
  // GEMM. Their order is queries, keys, values, attention's output, gates, ups, the block's output. So the GEMMs of keys, attention's
  // output and ups are recomputed, and so is all that is derived from GEMMs. What a reduce-scatter gives is kept too.
  alternate_gemms
};
inline constexpr int kRegions = 8;

using Regions = Flags<Region>;

// The spec's field `recompute`: "none", "selective" (the attention core), "full" (the layer), or a list of regions.
struct Recompute {
  Regions regions;
  bool operator==(const Recompute&) const = default;
  static const Recompute none, selective, full;
};
inline constexpr Recompute Recompute::none{};
inline constexpr Recompute Recompute::selective{{Region::core_attention}};
inline constexpr Recompute Recompute::full{{Region::layer}};

// Reads one of the three names, a list of regions, or regions joined by "+"; bad_input at `where` for anything else.
Recompute read_recompute(const nlohmann::json& value, const std::string& where);
// What it accepts, as JSON Schema.
nlohmann::ordered_json recompute_schema();
// The text that it is read from: "none", "selective", "full" or "core_attention+mlp".
std::string name_of(const Recompute& recompute);

}  // namespace mbench
