// Root-mean-square normalisation of rows (Zhang and Sennrich 2019):
// y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + eps).
// The rows are a tensor's, or parts of them, such as the heads of queries that lie packed with keys and values.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  Matrix x;      // [rows, n] each, `batch` of them
  Tensor gamma;  // [n], x's dtype; or none
  Matrix y;      // of x's sizes and dtype, strides of its own
  Tensor rstd;   // [batch * rows] f32, kept for the gradient
  float eps = 1e-5f;
  std::int64_t batch = 1;

  std::int64_t rows() const { return batch * x.rows; }
  std::int64_t cols() const { return x.cols; }
  void check() const {
    need_inside(name, "x", x, batch);
    need_like(name, "y", y, x, batch);
    if (gamma) need_shape(name, "gamma", gamma, {cols()});
    need_shape(name, "rstd", rstd, {rows()});
    need_dtype(name, "rstd", rstd, DType::f32);
  }
  Cost cost() const {
    const double n = static_cast<double>(rows() * cols());
    return {4 * n, 2 * n * static_cast<double>(size_of(x.data.dtype()))};
  }
};

struct RmsNormGrad {  // dx = d(loss)/dx (+ residual); dgamma accumulates
  static constexpr std::string_view name = "rms_norm_grad";
  Matrix dy, x;  // as the forward's y and x lay, or elsewhere
  Tensor rstd, gamma;
  Matrix residual;  // without data: none; of dy's sizes: the gradient that by-passed the norm, added to dx
  Matrix dx;        // of dy's sizes; may be dy or residual itself
  Tensor dgamma;    // [n], f32 or x's dtype; none without gamma, or where that is frozen
  std::int64_t batch = 1;

  std::int64_t rows() const { return batch * x.rows; }
  std::int64_t cols() const { return x.cols; }
  void check() const {
    need_inside(name, "x", x, batch);
    need_like(name, "dy", dy, x, batch);
    need_like(name, "dx", dx, x, batch);
    if (residual.data) need_like(name, "residual", residual, x, batch);
    if (gamma) need_shape(name, "gamma", gamma, {cols()});
    if (dgamma) need_shape(name, "dgamma", dgamma, {cols()});
    need_shape(name, "rstd", rstd, {rows()});
  }
  Cost cost() const {
    const double n = static_cast<double>(rows() * cols());
    return {9 * n, (residual.data ? 4 : 3) * n * static_cast<double>(size_of(x.data.dtype()))};
  }
};

}  // namespace mbench::ops
