// Layer normalisation of each head of queries or keys, which lie packed with others: y = (x - mean) rstd gamma + beta,
// rstd = 1 / sqrt(var + eps). One gamma is for all heads, or each has its own.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

// Gammas or betas: of all heads [n], or of each [heads * n]. Rows take turns: row r, counted through all matrices, is of head r % heads.
inline void need_head_vector(std::string_view op, std::string_view argument, const Tensor& vector, std::int64_t heads,
                             std::int64_t n) {
  if (vector) need_shape(op, argument, vector, {heads * n});
}

struct HeadNorm {
  static constexpr std::string_view name = "head_norm";
  Matrix x;                // [rows, n] each, `batch` of them
  Tensor gamma, beta;      // of x's dtype; beta optional
  Matrix y;                // of x's sizes and dtype, strides of its own
  Tensor mean, rstd;       // [batch * rows] f32, kept for the gradient
  std::int64_t heads = 1;  // that have vectors of their own
  float eps = 1e-5f;
  std::int64_t batch = 1;

  std::int64_t rows() const { return batch * x.rows; }
  std::int64_t cols() const { return x.cols; }
  void check() const {
    need_inside(name, "x", x, batch);
    need_like(name, "y", y, x, batch);
    mbench::check(heads > 0 && rows() % heads == 0, name, "heads, got {}, need a divisor of {} rows", heads, rows());
    need_head_vector(name, "gamma", gamma, heads, cols());
    need_head_vector(name, "beta", beta, heads, cols());
    for (const Tensor* statistics : {&mean, &rstd}) {
      need_shape(name, "mean or rstd", *statistics, {rows()});
      need_dtype(name, "mean or rstd", *statistics, DType::f32);
    }
  }
  Cost cost() const {
    const double n = static_cast<double>(rows() * cols());
    return {8 * n, 2 * n * static_cast<double>(size_of(x.data.dtype()))};
  }
};

struct HeadNormGrad {  // dx = d(loss)/dx; dgamma and dbeta accumulate
  static constexpr std::string_view name = "head_norm_grad";
  Matrix dy, x;  // as the forward's y and x lay, or elsewhere
  Tensor mean, rstd, gamma;
  Matrix dx;             // of dy's sizes; may be dy itself
  Tensor dgamma, dbeta;  // f32 or x's dtype; none where they are frozen, dbeta also where there is no beta
  std::int64_t heads = 1;
  std::int64_t batch = 1;

  std::int64_t rows() const { return batch * x.rows; }
  std::int64_t cols() const { return x.cols; }
  void check() const {
    need_inside(name, "x", x, batch);
    need_like(name, "dy", dy, x, batch);
    need_like(name, "dx", dx, x, batch);
    mbench::check(heads > 0 && rows() % heads == 0, name, "heads, got {}, need a divisor of {} rows", heads, rows());
    need_head_vector(name, "gamma", gamma, heads, cols());
    need_head_vector(name, "dgamma", dgamma, heads, cols());
    need_head_vector(name, "dbeta", dbeta, heads, cols());
    mbench::check(dgamma || !dbeta, name, "dbeta without dgamma, need both or none");
    need_shape(name, "mean", mean, {rows()});
    need_shape(name, "rstd", rstd, {rows()});
  }
  Cost cost() const {
    const double n = static_cast<double>(rows() * cols());
    return {14 * n, 3 * n * static_cast<double>(size_of(x.data.dtype()))};
  }
};

}  // namespace mbench::ops
