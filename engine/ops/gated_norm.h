// The norm behind a state mixer's scan: an RMS norm of rows with a gate. Mamba-2 norms u = x silu(z) of a group's heads together,
// y = u rstd(u) gamma. DeltaNet norms each head and then gates, y = x rstd(x) gamma silu(z). The gates z are columns of a wider tensor.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline void need_gated(std::string_view op, const Tensor& x, const Tensor& z, const Tensor& gamma, const Tensor& rstd,
                       std::int64_t width) {
  need_float(op, "x", x);
  check(x.shape().rank() == 4 && z.shape().rank() == 4, op, "x and z, got {} and {}, need [seq, batch, groups, width]",
        x.shape(), z.shape());
  const Shape &s = x.shape(), &n = z.shape();
  check(n[0] == s[0] && n[1] == s[1] && n[2] == s[2] && n[3] >= s[3], op, "z, got {}, need at least the columns of {}",
        n, s);
  need_dtype(op, "z", z, x.dtype());
  check(width > 0 && s[3] % width == 0, op, "norms of {} columns, need a divisor of {}", width, s[3]);
  check(gamma.numel() == width || gamma.numel() == s[2] * s[3], op, "gamma, got {}, need [{}] or [{}]", gamma.shape(),
        width, s[2] * s[3]);
  need_dtype(op, "gamma", gamma, x.dtype());
  need_shape(op, "rstd", rstd, {x.numel() / width});
  need_dtype(op, "rstd", rstd, DType::f32);
}

struct GatedNorm {
  static constexpr std::string_view name = "gated_norm";
  Tensor x;                // [seq, batch, groups, n]
  Tensor z;                // [seq, batch, groups, at least n]: the first n columns are the gates
  Tensor gamma;            // [width], the same for all norms; or [groups * n]
  Tensor y;                // like x
  Tensor rstd;             // [norms] f32, kept for the gradient
  std::int64_t width = 0;  // columns of one norm
  bool gate_first = true;
  float eps = 1e-5f;
  void check() const {
    need_gated(name, x, z, gamma, rstd, width);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {12.0 * static_cast<double>(x.numel()), 3 * bytes_of(x)}; }
};

struct GatedNormGrad {
  static constexpr std::string_view name = "gated_norm_grad";
  Tensor dy, x, z, gamma, rstd;
  Tensor dx;      // like x; may be dy itself
  Tensor dz;      // like z; only the gates' columns are written
  Tensor dgamma;  // accumulates; none where gamma is frozen
  std::int64_t width = 0;
  bool gate_first = true;
  void check() const {
    need_gated(name, x, z, gamma, rstd, width);
    need_same(name, "dy", dy, x);
    need_same(name, "dx", dx, x);
    need_same(name, "dz", dz, z);
    if (dgamma) need_shape(name, "dgamma", dgamma, gamma.shape());
  }
  Cost cost() const { return {28.0 * static_cast<double>(x.numel()), 5 * bytes_of(x)}; }
};

}  // namespace mbench::ops
