// The parts of a model's tree that read a sequence in its order, for architecture.cpp; and what initial values have in common.
#pragma once
#include <cmath>
#include <string>

#include "engine/point/architecture.h"

namespace mbench {

// Megatron's initialisation: 0.02, and for what adds to the residual stream 0.02 / sqrt(2 layers).
inline constexpr float kStddev = 0.02f;

inline float residual_stddev(const ModelSpec& m) {
  return kStddev / std::sqrt(2 * static_cast<float>(m.layers));
}

inline double inner_eps(const ModelParts& parts) {
  return parts.inner_norm_eps > 0 ? parts.inner_norm_eps : parts.norm_eps;
}

// A mixer with a scan, of a model as one layer sees it, a short convolution, and lightning attention of the layer of that index. `layer` is
// the layer's name.
StateMixerSpec state_mixer_of(const ModelSpec& model, const std::string& layer, MixerKind kind);
ShortConvSpec short_conv_of(const ModelSpec& model, const std::string& layer);
LightningSpec lightning_of(const ModelSpec& model, std::int64_t index, const std::string& layer);

}  // namespace mbench
