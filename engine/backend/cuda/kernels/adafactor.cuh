// The ops of an Adafactor step. Sums are taken in a fixed order, in two stages where several blocks share them.
#pragma once
#include "engine/backend/cuda/kernels/add_squares.h"
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/adafactor.h"

namespace mbench::cuda {

template <class T>
__global__ void __launch_bounds__(kFlatThreads)
    adafactor_row_sums(const T* grad, std::int64_t rows, std::int64_t cols, float scale, float eps, float* row) {
  __shared__ SharedArray<float, kWarp> parts;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    float sum = 0;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
      const float g = scale * to_f32(grad[r * cols + c]);
      sum += g * g + eps;
    }
    sum = row_reduce(sum, 0.0f, parts, Sum());
    if (threadIdx.x == 0) row[r] += sum;
  }
}

// partial[chunk, column]
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    adafactor_column_sums(const T* grad, std::int64_t rows, std::int64_t cols, std::int64_t chunk_rows, float scale,
                          float eps, float* partial) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * chunk_rows;
  const std::int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  float sum = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const float g = scale * to_f32(grad[r * cols + col]);
    sum += g * g + eps;
  }
  partial[static_cast<std::int64_t>(blockIdx.y) * cols + col] = sum;
}

// One block.
struct AdafactorMomentsArguments {
  const float *row_sum, *column_sum;
  float *row, *column, *mean;
  std::int64_t here_rows, here_cols, rows, cols;
  bool mean_of_rows;
  float beta2;
};
template <int Threads>
__global__ void __launch_bounds__(Threads) adafactor_moments(AdafactorMomentsArguments a) {
  __shared__ SharedArray<double, kWarp> parts;
  const float of_row = (1 - a.beta2) / static_cast<float>(a.cols),
              of_column = (1 - a.beta2) / static_cast<float>(a.rows);
  double row_total = 0, column_total = 0;
  for (std::int64_t i = threadIdx.x; i < a.here_rows; i += blockDim.x) {
    const float x = a.beta2 * a.row[i] + of_row * a.row_sum[i];
    a.row[i] = x;
    row_total += x;
  }
  for (std::int64_t i = threadIdx.x; i < a.here_cols; i += blockDim.x) {
    const float x = a.beta2 * a.column[i] + of_column * a.column_sum[i];
    a.column[i] = x;
    column_total += x;
  }
  const double total = row_reduce(a.mean_of_rows ? row_total : column_total, 0.0, parts, Sum());
  if (threadIdx.x == 0) *a.mean = static_cast<float>(total / static_cast<double>(a.mean_of_rows ? a.rows : a.cols));
}

template <class T>
__global__ void __launch_bounds__(kFlatThreads)
    adafactor_squares(const T* grad, std::int64_t n, std::int64_t cols, const float* row, const float* column,
                      const float* mean, float scale, double* partial) {
  __shared__ SharedArray<double, kWarp> parts;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const float inverse = 1.0f / *mean;
  double sum = 0;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  // Row and column go along: a division of 64 bits for each element would take longer than the rest.
  const std::int64_t first = i / cols;
  const int rows_on = static_cast<int>(threads / cols), cols_on = static_cast<int>(threads % cols);
  const float* of_row = row + first;
  for (int c = static_cast<int>(i - first * cols); i < n; i += threads) {
    const float u = scale * to_f32(grad[i]) / (sqrtf(*of_row * inverse) * sqrtf(column[c]));
    sum += static_cast<double>(u) * u;
    of_row += rows_on, c += cols_on;
    if (c >= cols) ++of_row, c -= static_cast<int>(cols);
  }
  sum = row_reduce(sum, 0.0, parts, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class TG, class TM>
struct AdafactorUpdateEach {
  static constexpr int kWidth = 1;
  float* param;
  const TG* grad;
  const float *row, *column, *mean, *squares;
  TM* model;  // null: none
  std::int64_t cols;
  float elements, lr, weight_decay, grad_scale, clip;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    const float rms = sqrtf(*squares / elements), shrink = rms > clip ? clip / rms : 1.0f;
    const float u = shrink * grad_scale * to_f32(grad[i]) / (sqrtf(row[i / cols] / *mean) * sqrtf(column[i % cols]));
    const float p = param[i] - lr * (u + weight_decay * param[i]);
    param[i] = p;
    if (model != nullptr) model[i] = from_f32<TM>(p);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::AdafactorSums& op) {
  const std::int64_t rows = op.row.numel(), cols = op.column.numel();
  if (rows == 0 || cols == 0) return;
  with_float(op.name, op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* grad = pointer<T>(op.grad);
    Launch by_row;
    by_row.grid_x = static_cast<unsigned>(std::min(rows, kEnoughBlocks));
    by_row.block_x = kFlatThreads;
    stream.launch(op.name, by_row, adafactor_row_sums<T>, grad, rows, cols, op.grad_scale, op.eps,
                  pointer<float>(op.row));
    const ColumnSums plan = column_sums(rows, cols, 1);
    float* partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(plan.chunks * cols) * sizeof(float)));
    stream.launch(op.name, plan.shape, adafactor_column_sums<T>, grad, rows, cols, plan.chunk_rows, op.grad_scale,
                  op.eps, partial);
    stream.launch(op.name, add_chunks_shape(cols, false), add_chunks<float, float>, partial, plan.chunks, cols, cols,
                  pointer<float>(op.column), nullptr);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::AdafactorMoments& op) {
  Launch one;
  one.block_x = kFlatThreads;
  stream.launch(
      op.name, one, adafactor_moments<kFlatThreads>,
      AdafactorMomentsArguments{pointer<float>(op.row_sum), pointer<float>(op.column_sum), pointer<float>(op.row),
                                pointer<float>(op.column), pointer<float>(op.mean), op.row.numel(), op.column.numel(),
                                op.rows, op.cols, op.mean_of_rows, op.beta2});
}

template <class Stream>
void enqueue(Stream& stream, const ops::AdafactorSquares& op) {
  const std::int64_t n = op.grad.numel();
  if (n == 0) return;
  with_float(op.name, op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    Launch shape = flat_shape(n, 1);
    shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, kSquareBlocks));
    auto* partial = static_cast<double*>(stream.scratch(shape.grid_x * sizeof(double)));
    stream.launch(op.name, shape, adafactor_squares<T>, pointer<T>(op.grad), n, op.column.numel(),
                  pointer<float>(op.row), pointer<float>(op.column), pointer<float>(op.mean), op.grad_scale, partial);
    Launch one;
    one.block_x = kFlatThreads;
    stream.launch(op.name, one, add_squares<kFlatThreads>, partial, static_cast<std::int64_t>(shape.grid_x),
                  pointer<float>(op.sum));
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::AdafactorUpdate& op) {
  with_float(op.name, op.grad.dtype(), [&](auto grad_type) {
    with_float(op.name, op.model ? op.model.dtype() : DType::f32, [&](auto model_type) {
      using TG = decltype(grad_type);
      using TM = decltype(model_type);
      launch_flat(
          stream, op.name, op.param.numel(),
          AdafactorUpdateEach<TG, TM>{pointer<float>(op.param), pointer<TG>(op.grad), pointer<float>(op.row),
                                      pointer<float>(op.column), pointer<float>(op.mean), pointer<float>(op.squares),
                                      op.model ? pointer<TM>(op.model) : nullptr, op.column.numel(),
                                      static_cast<float>(op.elements), op.lr, op.weight_decay, op.grad_scale, op.clip});
    });
  });
}

}  // namespace mbench::cuda
