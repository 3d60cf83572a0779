// The gated delta rule by chunks (Yang et al. 2024, "Gated Delta Networks"). Each head has a state h of [state_dim, head_dim], and keys and
// queries of length one. A decay is a = exp(-exp(a_log) softplus(raw + bias)); beta is the sigmoid of its raw value, times a scale of 1 or
// 2 (Grazzi et al. 2024: with 2 a state's parts may change their signs).
//
//   u(t) = beta(t) (v(t) - a(t) h(t - 1)^T k(t)),   h(t) = a(t) h(t - 1) + k(t) u(t)^T,   y(t) = h(t)^T q(t) / sqrt(state_dim)
//
// Within a chunk the u(t) solve a triangular system (the WY representation), and outputs are GEMMs of [chunk, chunk]. Heads of a group share
// keys and queries.
#pragma once
#include <vector>

#include "engine/ops/state_scan.h"

namespace mbench::ops {

inline constexpr float kUnitEps = 1e-6f;  // under the root of a key's or query's length

// As ScanShape has it: x is the value, B the key, C the query. The raw values of beta stand behind those of the decays. `d` is none.
struct DeltaScan {
  static constexpr std::string_view name = "delta_scan";
  static constexpr TimePart part = TimePart::attention;
  ScanShape shape;
  Tensor states;  // [chunks, batch, heads, state_dim * head_dim] f32: where a chunk begins
  Tensor y;       // [seq, batch, groups, heads / groups * head_dim]
  void check() const;
  std::vector<ScanGemm> gemms() const;
  Cost cost() const;
};

struct DeltaScanGrad {
  static constexpr std::string_view name = "delta_scan_grad";
  static constexpr TimePart part = TimePart::attention;
  ScanShape shape;
  Tensor dy, states;
  Tensor dxbc;              // like xbc
  Tensor din;               // like in; only the columns of decays and betas are written
  Tensor da_log, ddt_bias;  // accumulate; none where they are frozen
  void check() const;
  std::vector<ScanGemm> gemms() const;
  Cost cost() const;
};

}  // namespace mbench::ops
