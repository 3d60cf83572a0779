// The GEMMs of an MoE's experts, each with its own rows: expert e has the rows offsets[e] ... offsets[e + 1]. The host
// must know the offsets. Where all experts have the same number of rows it is one batched Matmul:
//
//   `a = Matrix(x, m, k, k, 0, m * k)`
//
//   `b = Matrix(w, n, k, k, 0, n * k).t()`
//
//   `c = Matrix(y, m, n, n, 0, m * n)`, with `batch = experts`.
#pragma once
#include <span>

#include "engine/ops/matmul.h"

namespace mbench::ops {

struct GroupedMatmul {
  static constexpr std::string_view name = "grouped_matmul";
  static constexpr TimePart part = TimePart::gemms;
  enum class Gemm {
    forward,          // y[rows of e] = x[rows of e] * w[e]^T + beta * y
    input_gradient,   // x[rows of e] = y[rows of e] * w[e] + beta * x
    weight_gradient,  // w[e] = y[rows of e]^T * x[rows of e] + beta * w[e]
  };
  Gemm gemm = Gemm::forward;
  Tensor x;                               // [rows, in]
  Tensor w;                               // [experts, out, in]
  Tensor y;                               // [rows, out]
  std::span<const std::int64_t> offsets;  // [experts + 1] on the host, rising; read before the call returns
  float beta = 0;                         // rows without an expert stay as they are

  std::int64_t experts() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  // The GEMM of one expert.
  Matmul of(std::int64_t expert) const;
  void check() const;
  Cost cost() const;
};

}  // namespace mbench::ops
