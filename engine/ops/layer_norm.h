// Layer normalisation over the last dim: y = (x - mean) * rstd * gamma + beta, rstd = 1 / sqrt(var + eps). Models
// without beta, or without gamma and beta, leave these and their gradients empty.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";
  Tensor x;            // [..., n]
  Tensor gamma, beta;  // [n], x's dtype
  Tensor y;            // like x
  Tensor mean, rstd;   // [rows] f32, kept for the gradient
  float eps = 1e-5f;
  void check() const {
    need_float(name, "x", x);
    if (gamma) need_shape(name, "gamma", gamma, {x.shape().cols()});
    if (beta) need_shape(name, "beta", beta, {x.shape().cols()});
    need_same(name, "y", y, x);
    need_shape(name, "mean", mean, {x.shape().rows()});
    need_shape(name, "rstd", rstd, {x.shape().rows()});
    need_dtype(name, "mean", mean, DType::f32);
    need_dtype(name, "rstd", rstd, DType::f32);
  }
  Cost cost() const { return {8.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct LayerNormGrad {  // dx = d(loss)/dx (+ residual); dgamma and dbeta accumulate
  static constexpr std::string_view name = "layer_norm_grad";
  Tensor dy;  // [..., n]
  Tensor x, mean, rstd, gamma;
  Tensor residual;       // optional, like dy: the gradient that by-passed the norm, added to dx
  Tensor dx;             // like dy; may be dy or residual itself
  Tensor dgamma, dbeta;  // [n], f32 or x's dtype; none where they are frozen
  void check() const {
    need_same(name, "dy", dy, x);
    need_same(name, "dx", dx, x);
    if (residual) need_same(name, "residual", residual, x);
    if (gamma) need_shape(name, "gamma", gamma, {x.shape().cols()});
    if (dgamma) need_shape(name, "dgamma", dgamma, {x.shape().cols()});
    mbench::check(dgamma || !dbeta, name, "dbeta without dgamma, need both or none");
    if (dbeta) need_shape(name, "dbeta", dbeta, {x.shape().cols()});
    need_shape(name, "mean", mean, {x.shape().rows()});
    need_shape(name, "rstd", rstd, {x.shape().rows()});
  }
  Cost cost() const {
    return {14.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(residual) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
