// Batched matrix product: C[i] = alpha * A[i] * B[i] + beta * C[i], all row-major; f32 accumulation.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

// A batch of rows x cols matrices inside a tensor. Element (i, r, c) is element
// offset + i * batch_stride + r * ld + c of the tensor; with `transposed` the stored matrix is cols x rows.
struct Matrix {
  Tensor data;
  std::int64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  std::int64_t offset = 0;
  std::int64_t batch_stride = 0;
  bool transposed = false;

  Matrix() = default;
  Matrix(const Tensor& t, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t offset = 0,
         std::int64_t batch_stride = 0)
      : data(t), rows(rows), cols(cols), ld(ld), offset(offset), batch_stride(batch_stride) {}
  // A whole contiguous tensor, its last dim as columns.
  explicit Matrix(const Tensor& t)
      : data(t), rows(t.shape().rows()), cols(t.shape().cols()), ld(t.shape().cols()) {}
  Matrix t() const {
    Matrix m = *this;
    std::swap(m.rows, m.cols);
    m.transposed = !m.transposed;
    return m;
  }
};

struct Matmul {
  static constexpr std::string_view name = "matmul";
  Matrix a;  // [m, k]
  Matrix b;  // [k, n]
  Matrix c;  // [m, n], never transposed
  std::int64_t batch = 1;
  float alpha = 1, beta = 0;
  void check() const;
  Cost cost() const;
};

}  // namespace mbench::ops
