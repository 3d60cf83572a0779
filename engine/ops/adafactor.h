// One step of Adafactor (Shazeer & Stern 2018, arXiv:1804.04235) for one matrix [rows, cols], in four ops. Between
// them, sums are reduced over the ranks that have parts of the matrix. There is no first moment, and the learning rate
// is used as given: transformers.Adafactor with relative_step and scale_parameter false. With g = grad_scale * grad and
// the square g^2 + eps:
//
//   AdafactorSums      Row sums and column sums of the squares.
//   AdafactorMoments   `r = b2 r + (1 - b2) row sums / cols`; c likewise, of columns; `mean = mean(r) = mean(c)`.
//   AdafactorSquares   The sum of u^2, `u = g / sqrt(r / mean) / sqrt(c)`.
//   AdafactorUpdate    `p -= lr * (u / max(1, rms(u) / clip) + weight_decay * p)`.
//
// A vector is a matrix of one column: c = mean then, and u = g / sqrt(r), as transformers.Adafactor does for vectors.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct AdafactorSums {
  static constexpr std::string_view name = "adafactor_sums";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor grad;         // [rows, cols] f32, bf16 or f16
  Tensor row, column;  // [rows] and [cols] f32, accumulated into
  float grad_scale = 1, eps = 1e-30f;
  void check() const {
    need_float(name, "grad", grad);
    need_shape(name, "row", row, {grad.shape().rows()});
    need_shape(name, "column", column, {grad.shape().cols()});
    need_dtype(name, "row", row, DType::f32);
    need_dtype(name, "column", column, DType::f32);
  }
  Cost cost() const {
    return {4.0 * static_cast<double>(grad.numel()), bytes_of(grad) + 2 * (bytes_of(row) + bytes_of(column))};
  }
};

struct AdafactorMoments {
  static constexpr std::string_view name = "adafactor_moments";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor row_sum, column_sum;       // [rows] and [cols] f32, of the whole matrix
  Tensor row, column;               // likewise, the moments
  Tensor mean;                      // [1] f32
  std::int64_t rows = 0, cols = 0;  // of the whole matrix
  bool mean_of_rows = true;         // true: all rows are here; false: all columns are
  float beta2 = 0;
  void check() const {
    for (const Tensor* t : {&row_sum, &column_sum, &row, &column, &mean}) need_dtype(name, "tensors", *t, DType::f32);
    need_shape(name, "row", row, row_sum.shape());
    need_shape(name, "column", column, column_sum.shape());
    need_shape(name, "mean", mean, {1});
    const Tensor& whole = mean_of_rows ? row : column;
    mbench::check(whole.numel() == (mean_of_rows ? rows : cols), name, "what the mean is of, got {} of {} {}",
                  whole.numel(), mean_of_rows ? rows : cols, mean_of_rows ? "rows" : "columns");
  }
  Cost cost() const {
    const auto n = static_cast<double>(row.numel() + column.numel());
    return {4 * n, 12 * n};
  }
};

struct AdafactorSquares {
  static constexpr std::string_view name = "adafactor_squares";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor grad;  // [rows, cols] f32, bf16 or f16
  Tensor row, column, mean;
  Tensor sum;  // [1] f32, accumulated into
  float grad_scale = 1;
  void check() const {
    need_float(name, "grad", grad);
    need_shape(name, "row", row, {grad.shape().rows()});
    need_shape(name, "column", column, {grad.shape().cols()});
    need_shape(name, "mean", mean, {1});
    need_shape(name, "sum", sum, {1});
    for (const Tensor* t : {&row, &column, &mean, &sum}) need_dtype(name, "factors and sum", *t, DType::f32);
  }
  Cost cost() const {
    return {5.0 * static_cast<double>(grad.numel()), bytes_of(grad) + bytes_of(row) + bytes_of(column)};
  }
};

struct AdafactorUpdate {
  static constexpr std::string_view name = "adafactor_update";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor param;  // [rows, cols] f32, the main weights
  Tensor grad;   // f32, bf16 or f16
  Tensor row, column, mean;
  Tensor squares;             // [1] f32, the sum of u^2 over the whole matrix
  Tensor model;               // optional 16-bit weights that the model computes with: rewritten from param
  std::int64_t elements = 0;  // of the whole matrix: rms(u) = sqrt(squares / elements)
  float lr = 0, weight_decay = 0, grad_scale = 1, clip = 1;
  void check() const {
    need_dtype(name, "param", param, DType::f32);
    need_float(name, "grad", grad);
    need_shape(name, "grad", grad, param.shape());
    need_shape(name, "row", row, {param.shape().rows()});
    need_shape(name, "column", column, {param.shape().cols()});
    need_shape(name, "mean", mean, {1});
    need_shape(name, "squares", squares, {1});
    for (const Tensor* t : {&row, &column, &mean, &squares}) need_dtype(name, "factors and squares", *t, DType::f32);
    if (model) need_shape(name, "model", model, param.shape());
    mbench::check(elements > 0, name, "elements, got {}, need more", elements);
  }
  Cost cost() const {
    return {8.0 * static_cast<double>(param.numel()),
            2 * bytes_of(param) + bytes_of(grad) + bytes_of(row) + bytes_of(column) + bytes_of(model)};
  }
};

}  // namespace mbench::ops
