// Matrices inside a tensor, wherever they lie: what ops on part of a tensor take.
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
  explicit Matrix(const Tensor& t) : data(t), rows(t.shape().rows()), cols(t.shape().cols()), ld(t.shape().cols()) {}
  Matrix t() const {
    Matrix m = *this;
    std::swap(m.rows, m.cols);
    m.transposed = !m.transposed;
    return m;
  }
};

// Needs the first `batch` matrices of `m` inside its tensor, not transposed, of a floating-point dtype; with `bytes` also of
// codes of 8 bits. Otherwise throws an internal error naming the op and the argument.
void need_inside(std::string_view op, std::string_view argument, const Matrix& m, std::int64_t batch,
                 bool bytes = false);
// The same, and of the sizes and dtype of `like`.
void need_like(std::string_view op, std::string_view argument, const Matrix& m, const Matrix& like, std::int64_t batch);

}  // namespace mbench::ops
