// Root-mean-square normalisation over the last dim (Zhang and Sennrich 2019): y = x * rstd * gamma,
// rstd = 1 / sqrt(mean(x^2) + eps).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  Tensor x;      // [..., n]
  Tensor gamma;  // [n], x's dtype
  Tensor y;      // like x
  Tensor rstd;   // [rows] f32, kept for the gradient
  float eps = 1e-5f;
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "gamma", gamma, {x.shape().cols()});
    need_same(name, "y", y, x);
    need_shape(name, "rstd", rstd, {x.shape().rows()});
    need_dtype(name, "rstd", rstd, DType::f32);
  }
  Cost cost() const { return {4.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct RmsNormGrad {  // dx = d(loss)/dx (+ residual); dgamma accumulates
  static constexpr std::string_view name = "rms_norm_grad";
  Tensor dy;  // [..., n]
  Tensor x, rstd, gamma;
  Tensor residual;  // optional, like dy: the gradient that by-passed the norm, added to dx
  Tensor dx;        // like dy; may be dy or residual itself
  Tensor dgamma;    // [n], f32 or x's dtype
  void check() const {
    need_same(name, "dy", dy, x);
    need_same(name, "dx", dx, x);
    if (residual) need_same(name, "residual", residual, x);
    need_shape(name, "gamma", gamma, {x.shape().cols()});
    need_shape(name, "dgamma", dgamma, {x.shape().cols()});
    need_shape(name, "rstd", rstd, {x.shape().rows()});
  }
  Cost cost() const {
    return {9.0 * static_cast<double>(x.numel()),
            bytes_of(dy) + bytes_of(x) + bytes_of(residual) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
