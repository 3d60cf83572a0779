// The biases of experts, for rows that the host knows. The first row of each expert is an argument of the kernel, and a launch takes a
// fixed number of experts. The bias's gradient is summed by chunks of an expert's rows, then over chunks in order. A router weight's
// gradient is summed over its row.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/expert_bias.h"

namespace mbench::cuda {

inline constexpr int kExpertsOfLaunch = 64, kExpertBiasThreads = 256;

// Some neighbouring experts: where the rows of each begin, and at the end where the last one's end.
struct FirstRows {
  int experts = 0;
  std::int64_t at[kExpertsOfLaunch + 1] = {};
  // The expert, of these, that a row belongs to.
  __device__ int of(std::int64_t row) const {
    int low = 0, high = experts - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (at[middle] <= row)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

// f(the first expert, where they begin, the most rows of one of them), for as many experts as a launch takes.
template <class F>
void for_launches(const ops::RowsOfExperts& rows, std::int64_t experts, F&& f) {
  for (std::int64_t first = 0; first < experts; first += kExpertsOfLaunch) {
    FirstRows some;
    some.experts = static_cast<int>(std::min<std::int64_t>(kExpertsOfLaunch, experts - first));
    std::int64_t most = 0;
    for (int e = 0; e < some.experts; ++e) {
      some.at[e] = rows.begin(first + e);
      most = std::max(most, rows.count(first + e));
    }
    some.at[some.experts] = rows.begin(first + some.experts);
    if (most > 0) f(first, some, most);
  }
}

template <class T>
struct ExpertBiasEach {
  static constexpr int kWidth = width_of<T>();
  T* y;           // of all rows
  const T* bias;  // of the launch's first expert
  const float* weights;
  float share;
  std::int64_t cols;
  FirstRows first;
  bool aligned() const { return cuda::aligned<kWidth>(y, bias); }
  template <int V>
  __device__ char column(std::int64_t) const {
    return 0;  // each row may have another expert's
  }
  template <int V>
  __device__ void apply(char, std::int64_t of_launch, std::int64_t col) const {
    const std::int64_t row = first.at[0] + of_launch;
    const Floats<V> b = load<V>(bias + first.of(row) * cols + col);
    const float weight = weights != nullptr ? share * weights[row] : share;
    Floats<V> z = load<V>(y + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] += weight * b.v[k];
    store(y + row * cols + col, z);
  }
};

template <class T>
struct ExpertBiasSums {
  const T* dy;
  const float* weights;
  float* partial;  // [experts, chunks, cols]
  std::int64_t cols, chunk_rows;
  FirstRows first;
};

// A thread owns V columns of a chunk of the rows of one expert. The expert may have no rows there.
template <int V, class T>
__global__ void __launch_bounds__(kColumnThreads) sum_expert_rows(ExpertBiasSums<T> a) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (col >= a.cols) return;
  const std::int64_t expert = blockIdx.z, chunk = blockIdx.y, last = a.first.at[expert + 1];
  const std::int64_t begin = a.first.at[expert] + chunk * a.chunk_rows;
  const std::int64_t end = begin + a.chunk_rows < last ? begin + a.chunk_rows : last;
  Floats<V> sum = filled<V>(0);
#pragma unroll 4
  for (std::int64_t row = begin; row < end; ++row) {
    const Floats<V> x = load<V>(a.dy + row * a.cols + col);
    const float weight = a.weights != nullptr ? a.weights[row] : 1.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += weight * x.v[k];
  }
  store(a.partial + (expert * gridDim.y + chunk) * a.cols + col, sum);
}

// dbias[expert, col] += the sum over chunks; a block has columns of one expert.
template <class TD>
__global__ void __launch_bounds__(kColumnThreads)
    add_expert_chunks(const float* partial, std::int64_t chunks, std::int64_t cols, TD* dbias) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, expert = blockIdx.y;
  if (col >= cols) return;
  float sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[(expert * chunks + chunk) * cols + col];
  TD* to = dbias + expert * cols + col;
  *to = from_f32<TD>(to_f32(*to) + sum);
}

template <class T>
struct ExpertWeightGrad {
  const T *dy, *bias;  // bias: of the launch's first expert
  float* dweights;
  float share;
  std::int64_t cols;
  FirstRows first;
};

template <class T, int V>
__global__ void __launch_bounds__(kExpertBiasThreads) expert_weight_grad(ExpertWeightGrad<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t row = a.first.at[0] + own_row();
  if (row >= a.first.at[a.first.experts]) return;
  const T *dy = a.dy + row * a.cols, *bias = a.bias + a.first.of(row) * a.cols;
  float sum = 0;
  for_row<V, 0>(a.cols, [&](int, std::int64_t col) {
    const Floats<V> d = load<V>(dy + col), b = load<V>(bias + col);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += d.v[k] * b.v[k];
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) a.dweights[row] = a.share * sum;
}

// Chunks of an expert's rows: at least 16 rows each, and over all experts no more than keep the GPU busy.
struct ExpertSums {
  Launch shape;
  std::int64_t chunk_rows = 0, chunks = 0;
};
inline ExpertSums expert_sums(std::int64_t experts, std::int64_t most_rows, std::int64_t cols, int width) {
  const std::int64_t vectors = (cols + width - 1) / width;
  ExpertSums plan;
  plan.shape.block_x = static_cast<unsigned>(std::min<std::int64_t>(kColumnThreads, (vectors + 31) / 32 * 32));
  plan.shape.grid_x = static_cast<unsigned>((vectors + plan.shape.block_x - 1) / plan.shape.block_x);
  const std::int64_t most = std::clamp<std::int64_t>(2048 / (plan.shape.grid_x * experts), 1, 512);
  plan.chunk_rows = std::max<std::int64_t>(16, (most_rows + most - 1) / most);
  plan.chunks = (most_rows + plan.chunk_rows - 1) / plan.chunk_rows;
  plan.shape.grid_y = static_cast<unsigned>(plan.chunks);
  plan.shape.grid_z = static_cast<unsigned>(experts);
  return plan;
}

struct NoWeights {
  static constexpr int kWidth = 1;
  float* dweights;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t row) const {
    dweights[row] = 0;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::ExpertBias& op) {
  with_float(op.name, op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.y.shape().cols();
    for_launches(op.rows, op.bias.shape()[0], [&](std::int64_t expert, const FirstRows& first, std::int64_t) {
      launch_columns(stream, op.name, first.at[first.experts] - first.at[0], cols,
                     ExpertBiasEach<T>{pointer<T>(op.y), pointer<T>(op.bias) + expert * cols,
                                       pointer<float>(op.weights), op.share, cols, first});
    });
  });
}

template <class T, class Stream>
void enqueue_sums(Stream& stream, const ops::ExpertBiasGrad& op, std::int64_t expert, const FirstRows& first,
                  std::int64_t most) {
  constexpr int V = width_of<T>();
  const std::int64_t cols = op.dy.shape().cols();
  const T* dy = pointer<T>(op.dy);
  const bool wide = cols % V == 0 && aligned<V>(dy);
  const ExpertSums plan = expert_sums(first.experts, most, cols, wide ? V : 1);
  float* partial =
      static_cast<float*>(stream.scratch(static_cast<std::size_t>(first.experts * plan.chunks * cols) * sizeof(float)));
  stream.launch(op.name, plan.shape, wide ? sum_expert_rows<V, T> : sum_expert_rows<1, T>,
                ExpertBiasSums<T>{dy, pointer<float>(op.weights), partial, cols, plan.chunk_rows, first});
  Launch add;
  add.block_x = kColumnThreads;
  add.grid_x = static_cast<unsigned>((cols + kColumnThreads - 1) / kColumnThreads);
  add.grid_y = static_cast<unsigned>(first.experts);
  with_float(op.name, op.dbias.dtype(), [&](auto to_type) {
    using TD = decltype(to_type);
    stream.launch(op.name, add, add_expert_chunks<TD>, partial, plan.chunks, cols,
                  pointer<TD>(op.dbias) + expert * cols);
  });
}

template <class T, class Stream>
void enqueue_weights(Stream& stream, const ops::ExpertBiasGrad& op, std::int64_t expert, const FirstRows& first) {
  constexpr int V = width_of<T>();
  const std::int64_t cols = op.dy.shape().cols(), rows = first.at[first.experts] - first.at[0];
  const ExpertWeightGrad<T> a{
      pointer<T>(op.dy), pointer<T>(op.bias) + expert * cols, pointer<float>(op.dweights), op.share, cols, first};
  if (cols % V == 0 && aligned<V>(a.dy, a.bias))
    stream.launch(op.name, row_shape(rows, cols, V, kExpertBiasThreads), expert_weight_grad<T, V>, a);
  else
    stream.launch(op.name, row_shape(rows, cols, 1, kExpertBiasThreads), expert_weight_grad<T, 1>, a);
}

template <class Stream>
void enqueue(Stream& stream, const ops::ExpertBiasGrad& op) {
  if (op.weights) launch_flat(stream, op.name, op.dweights.numel(), NoWeights{pointer<float>(op.dweights)});
  if (op.dy.shape().cols() == 0) return;
  with_float(op.name, op.dy.dtype(), [&](auto type) {
    using T = decltype(type);
    for_launches(op.rows, op.dbias.shape()[0], [&](std::int64_t expert, const FirstRows& first, std::int64_t most) {
      enqueue_sums<T>(stream, op, expert, first, most);
      if (op.weights) enqueue_weights<T>(stream, op, expert, first);
    });
  });
}

}  // namespace mbench::cuda
