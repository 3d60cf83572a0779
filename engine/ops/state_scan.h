// Mamba-2's scan in its chunked form (Dao and Gu 2024, "Transformers are SSMs", section 6). For each head, with a state h of
// [state_dim, head_dim], a step dt = softplus(raw + bias) and A = -exp(a_log):
//
//   h(t) = exp(dt(t) A) h(t - 1) + dt(t) B(t) x(t)^T,   y(t) = C(t)^T h(t) + D x(t)
//
// Within a chunk of the sequence the outputs are GEMMs of [chunk, chunk], as attention's are. Between chunks only states are handed on.
// Heads of a group share B and C.
#pragma once
#include <vector>

#include "engine/ops/arguments.h"

namespace mbench::ops {

inline constexpr std::int64_t kMostChunk = 1024;  // positions

// What a scan reads. `xbc` has the inputs of a group's heads, then B, then C; `in` the raw steps of a group's heads, from column `first`.
struct ScanShape {
  Tensor xbc;                // [seq, batch, groups, heads / groups * head_dim + 2 * state_dim]
  Tensor in;                 // [seq, batch, groups, width]
  Tensor a_log, dt_bias, d;  // [heads]
  std::int64_t head_dim = 0, state_dim = 0, chunk = 0, first = 0;
  float beta_scale = 1;  // of the gated delta rule

  std::int64_t seq() const { return xbc.shape()[0]; }
  std::int64_t batch() const { return xbc.shape()[1]; }
  std::int64_t groups() const { return xbc.shape()[2]; }
  std::int64_t heads() const { return a_log.numel(); }
  std::int64_t group() const { return heads() / groups(); }
  std::int64_t channels() const { return xbc.shape()[3]; }
  std::int64_t group_width() const { return group() * head_dim; }
  std::int64_t chunks() const { return (seq() + chunk - 1) / chunk; }
  // Positions of a chunk, whose last may be short; where no chunk is full, the sequence.
  std::int64_t length(std::int64_t c) const { return std::min(chunk, seq() - c * chunk); }
  Shape output() const { return {seq(), batch(), groups(), group_width()}; }
  Shape steps() const { return {batch(), heads(), seq()}; }
  Shape states() const { return {chunks(), batch(), heads(), state_dim * head_dim}; }
  void check(std::string_view op) const;
};

// A batched GEMM inside a scan, for what a machine takes to run it.
struct ScanGemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  double share = 1;  // of its FLOPs that are not hidden by the causal order
  double flops() const {
    return share * 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
};
double flops_of(const std::vector<ScanGemm>& gemms);

struct StateScan {
  static constexpr std::string_view name = "state_scan";
  static constexpr TimePart part = TimePart::attention;
  ScanShape shape;
  Tensor steps, sums;  // [batch, heads, seq] f32: dt, and the sum of dt A from the chunk's start
  Tensor states;       // [chunks, batch, heads, state_dim * head_dim] f32: where a chunk begins
  Tensor y;            // [seq, batch, groups, heads / groups * head_dim]; none where only the states are asked for
  void check() const;
  std::vector<ScanGemm> gemms() const;
  Cost cost() const;
};

struct StateScanGrad {
  static constexpr std::string_view name = "state_scan_grad";
  static constexpr TimePart part = TimePart::attention;
  ScanShape shape;
  Tensor dy, steps, sums, states;
  Tensor dstates;               // like states; scratch: gradients of the states where chunks end
  Tensor dxbc;                  // like xbc
  Tensor din;                   // like in; only the columns of steps are written
  Tensor da_log, ddt_bias, dd;  // accumulate; none where they are frozen
  void check() const;
  std::vector<ScanGemm> gemms() const;
  Cost cost() const;
};

}  // namespace mbench::ops
