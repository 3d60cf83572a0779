#include "engine/ops/adafactor.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

// f(tile of a row in f32, row, first column, columns), all tiles of a row after one another.
template <class T, class F>
void for_row_tiles(const Tensor& matrix, std::int64_t row, F&& f) {
  const std::int64_t cols = matrix.shape().cols();
  float buffer[kTile];
  for (std::int64_t at = 0; at < cols; at += kTile) {
    const std::int64_t n = std::min(kTile, cols - at);
    f(load(matrix.as<T>() + row * cols + at, buffer, n), at, n);
  }
}

// What row r and the columns of a tile divide a gradient by, inverted.
float row_factor(const Tensor& row, const Tensor& mean, std::int64_t r) {
  return 1 / std::sqrt(row.as<float>()[r] / *mean.as<float>());
}

constexpr std::int64_t kChunkRows = 64;  // whose column sums are added up apart: the same for any number of threads

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::AdafactorSums& op) {
  const std::int64_t rows = op.row.numel(), cols = op.column.numel(), chunks = (rows + kChunkRows - 1) / kChunkRows;
  auto* partial = static_cast<float*>(cpu.scratch.bytes(static_cast<std::size_t>(chunks * cols) * sizeof(float)));
  with_type(op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(chunks, kChunkRows * cols, [&](std::int64_t chunk) {
      float* column = partial + chunk * cols;
      std::fill(column, column + cols, 0.0f);
      for (std::int64_t r = chunk * kChunkRows; r < std::min(rows, (chunk + 1) * kChunkRows); ++r) {
        double sum = 0;
        for_row_tiles<T>(op.grad, r, [&](const float* g, std::int64_t at, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i) {
            const float square = op.grad_scale * g[i] * (op.grad_scale * g[i]) + op.eps;
            sum += square;
            column[at + i] += square;
          }
        });
        op.row.as<float>()[r] += static_cast<float>(sum);
      }
    });
  });
  float* column = op.column.as<float>();
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t c = 0; c < cols; ++c) column[c] += partial[chunk * cols + c];
}

template <>
void compute(CpuOps&, const ops::AdafactorMoments& op) {
  const auto move = [&](const Tensor& moment, const Tensor& sum, std::int64_t count) {
    float* x = moment.as<float>();
    const float weight = (1 - op.beta2) / static_cast<float>(count);
    double total = 0;
    for (std::int64_t i = 0; i < moment.numel(); ++i) {
      x[i] = op.beta2 * x[i] + weight * sum.as<float>()[i];
      total += x[i];
    }
    return total;
  };
  const double of_rows = move(op.row, op.row_sum, op.cols), of_columns = move(op.column, op.column_sum, op.rows);
  *op.mean.as<float>() = static_cast<float>(op.mean_of_rows ? of_rows / static_cast<double>(op.rows)
                                                            : of_columns / static_cast<double>(op.cols));
}

template <>
void compute(CpuOps& cpu, const ops::AdafactorSquares& op) {
  const std::int64_t rows = op.row.numel(), cols = op.column.numel();
  auto* partial = static_cast<double*>(cpu.scratch.bytes(static_cast<std::size_t>(rows) * sizeof(double)));
  with_type(op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(rows, cols, [&](std::int64_t r) {
      const float factor = op.grad_scale * row_factor(op.row, op.mean, r);
      const float* column = op.column.as<float>();
      double sum = 0;
      for_row_tiles<T>(op.grad, r, [&](const float* g, std::int64_t at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const float u = factor * g[i] / std::sqrt(column[at + i]);
          sum += static_cast<double>(u) * u;
        }
      });
      partial[r] = sum;
    });
  });
  double sum = *op.sum.as<float>();
  for (std::int64_t r = 0; r < rows; ++r) sum += partial[r];
  *op.sum.as<float>() = static_cast<float>(sum);
}

template <>
void compute(CpuOps&, const ops::AdafactorUpdate& op) {
  const std::int64_t rows = op.row.numel(), cols = op.column.numel();
  const double rms = std::sqrt(*op.squares.as<float>() / static_cast<double>(op.elements));
  const auto shrink = static_cast<float>(1 / std::max(1.0, rms / op.clip));
  with_type(op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(rows, cols, [&](std::int64_t r) {
      const float factor = shrink * op.grad_scale * row_factor(op.row, op.mean, r);
      for_row_tiles<T>(op.grad, r, [&](const float* g, std::int64_t at, std::int64_t n) {
        const float* column = op.column.as<float>() + at;
        float* p = op.param.as<float>() + r * cols + at;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          p[i] -= op.lr * (factor * g[i] / std::sqrt(column[i]) + op.weight_decay * p[i]);
        if (op.model)
          with_type(op.model.dtype(),
                    [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + r * cols + at, n); });
      });
    });
  });
}

}  // namespace mbench::cpu
