#include "engine/point/state_architecture.h"

#include <algorithm>

namespace mbench {
namespace {

// Initial values as published: A within 1 and 16, time steps within 0.001 and 0.1, here both log-normal.
constexpr float kMeanALog = 1.6f, kALogStddev = 0.6f, kMeanDtBias = -4.6f, kDtBiasStddev = 0.9f;
constexpr std::int64_t kConvWidth = 4, kMambaChunk = 256, kDeltaChunk = 64;

// What the first Mamba makes steps, B and C by. Steps are drawn as wide as published, here normal and there uniform.
void add_selection(const ModelSpec& m, StateMixerSpec& s) {
  const std::int64_t inner = s.heads * s.head_dim;
  s.dt_rank = m.dt_rank;
  s.x = LinearSpec{s.name + ".x", inner, s.dt_rank + 2 * s.state_dim, Role::inner_row, false, kStddev};
  s.dt = LinearSpec{s.name + ".dt",     s.dt_rank, inner,
                    Role::inner_column, false,     1 / std::sqrt(3 * static_cast<float>(s.dt_rank))};
  const ModelParts& parts = m.parts();
  if (parts.scan_norm == ScanNorm::none) return;
  for (const auto& [name, width] :
       {std::pair(".dt_norm", s.dt_rank), {".b_norm", s.state_dim}, {".c_norm", s.state_dim}}) {
    NormSpec norm{s.name + name, NormKind::rms_norm, width, static_cast<float>(parts.scan_norm_eps)};
    norm.gamma = parts.scan_norm == ScanNorm::rms_norm;
    s.norms.push_back(norm);
  }
}

}  // namespace

StateMixerSpec state_mixer_of(const ModelSpec& m, const std::string& layer, MixerKind kind) {
  const ModelParts& parts = m.parts();
  const bool mamba2 = kind == MixerKind::mamba2, mamba = kind != MixerKind::gated_delta;
  StateMixerSpec s;
  s.name = layer + (mamba ? ".mamba" : ".delta");
  s.kind = kind;
  s.heads = m.state_heads, s.groups = m.state_groups;
  s.head_dim = m.state_head_dim, s.state_dim = m.state_dim;
  s.conv_width = m.conv_width == 0 ? kConvWidth : m.conv_width;
  s.chunk = m.state_chunk != 0 ? m.state_chunk : mamba2 ? kMambaChunk : kDeltaChunk;
  const float conv_stddev = 1 / std::sqrt(3 * static_cast<float>(s.conv_width));
  const std::int64_t channels = s.groups * s.conv_channels();
  s.in = {s.name + ".in", m.hidden, s.groups * s.in_width(), Role::column, false, kStddev};
  s.conv = {s.name + ".conv", channels, s.conv_width, Role::column, conv_stddev};
  if (mamba) s.conv_bias = VectorSpec{s.name + ".conv_bias", channels, Role::column, conv_stddev};
  s.a_log = {s.name + ".a_log", s.heads * (s.selective() ? s.state_dim : 1), Role::column, kALogStddev, kMeanALog};
  s.dt_bias = {s.name + ".dt_bias", s.heads, Role::column, kDtBiasStddev, kMeanDtBias};
  if (mamba) s.d = VectorSpec{s.name + ".d", s.heads, Role::column, 0, 1};
  s.gamma = {s.name + ".gamma", mamba ? s.heads * s.head_dim : s.head_dim, mamba ? Role::column : Role::whole, 0, 1};
  s.norm_eps = static_cast<float>(inner_eps(parts));
  if (kind == MixerKind::gated_delta && parts.negative_eigenvalues) s.beta_scale = 2;
  if (mamba2) {
    s.norm = parts.state_norm;
    std::transform(parts.multipliers.state_inputs.begin(), parts.multipliers.state_inputs.end(), s.factors.begin(),
                   [](double factor) { return static_cast<float>(factor); });
  }
  if (s.selective()) add_selection(m, s);
  s.out = {s.name + ".out", s.heads * s.head_dim, m.hidden, Role::row, false, residual_stddev(m)};
  return s;
}

ShortConvSpec short_conv_of(const ModelSpec& m, const std::string& layer) {
  ShortConvSpec s;
  s.name = layer + ".short_conv";
  s.groups = m.conv_groups(), s.width = m.hidden / s.groups;
  const std::int64_t taps = m.conv_width == 0 ? kConvWidth : m.conv_width;
  s.in = {s.name + ".in", m.hidden, 3 * m.hidden, Role::column, false, kStddev};
  s.conv = {s.name + ".conv", m.hidden, taps, Role::column, 1 / std::sqrt(3 * static_cast<float>(taps))};
  s.out = {s.name + ".out", m.hidden, m.hidden, Role::row, false, residual_stddev(m)};
  return s;
}

// Slopes as ALiBi's, which fall from layer to layer; the norm's epsilon is not the model's (transformers: MiniMaxLightningAttention).
LightningSpec lightning_of(const ModelSpec& m, std::int64_t index, const std::string& layer) {
  constexpr double kSmall = 1e-5;
  constexpr float kNormEps = 1e-6f;
  LightningSpec s;
  s.name = layer + ".lightning";
  s.heads = m.heads, s.dim = m.head_dim();
  s.chunk = m.state_chunk != 0 ? m.state_chunk : kMambaChunk;
  const double depth = 1 - static_cast<double>(index) / (static_cast<double>(m.layers - 1) + kSmall) + kSmall;
  for (std::int64_t head = 0; head < s.heads; ++head)
    s.log_slopes.push_back(static_cast<float>(std::log(depth) - std::log(2.0) * 8 * static_cast<double>(head + 1) /
                                                                    static_cast<double>(s.heads)));
  const std::int64_t inner = s.heads * s.dim;
  s.in = {s.name + ".in", m.hidden, 4 * inner, Role::column, false, kStddev};
  s.norm = {s.name + ".norm", NormKind::rms_norm, inner, kNormEps};
  s.out = {s.name + ".out", inner, m.hidden, Role::row, false, residual_stddev(m)};
  return s;
}

}  // namespace mbench
