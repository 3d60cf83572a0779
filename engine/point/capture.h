// What of a step is recorded once and replayed, as a CUDA graph is: the whole step, or parts of its layers. Parts are those of
// Megatron-Core's scoped CUDA graphs (--cuda-graph-modules), each with its forward and its backward.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/base/flags.h"

namespace mbench {

enum class CapturedPart : std::uint8_t {
  layer,          // the whole layer
  attention,      // the branch of attention: norm, attention and residual sum
  mlp,            // the branch of a dense feed-forward block
  moe,            // the branch of experts
  moe_router,     // of the branch of experts, the norm and the router
  moe_preprocess  // of the branch of experts, what plans where rows go
};
inline constexpr int kCapturedParts = 6;

using CapturedParts = Flags<CapturedPart>;

// The spec's field `capture`: false, true (the whole step), or parts.
struct Capture {
  bool step = false;
  CapturedParts parts;
  constexpr Capture(bool whole = false) : step(whole) {}
  constexpr Capture(CapturedParts some) : parts(some) {}
  constexpr bool any() const { return step || parts.any(); }
  constexpr bool operator==(const Capture&) const = default;
};

// Reads true, false, a list of parts, or parts joined by "+"; bad_input at `where` for anything else.
Capture read_capture(const nlohmann::json& value, const std::string& where);
// What it is read from: true, false or "attention+moe_router".
nlohmann::ordered_json write_capture(const Capture& capture);
// What it accepts, as JSON Schema.
nlohmann::ordered_json capture_schema();
std::string name_of(const Capture& capture);
std::string name_of(const CapturedParts& parts);

}  // namespace mbench
