// The steps of a vocabulary-parallel cross entropy: a block (or a warp) for each row of logits, read once.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/cross_entropy.h"

namespace mbench::cuda {

inline constexpr int kVocabularyThreads = 1024;
// With more than 32 registers, three blocks of 512 threads fit a multiprocessor at once, but only one of 1024.
inline constexpr int kMaxExpSumThreads = 512;

template <class T, int V>
__global__ void __launch_bounds__(kVocabularyThreads)
    row_max(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t valid, float* max) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= rows) return;
  float top = kLowest;
  for_row<V, 0>(valid, [&](int, std::int64_t col) {
    const Floats<V> z = load<V>(x + r * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (col + k < valid) top = Max()(top, z.v[k]);
  });
  top = row_reduce(top, kLowest, parts, Max());
  if (threadIdx.x == 0) max[r] = top;
}

template <class T>
struct ExpSumArguments {
  const T* logits;  // may be exp itself: each thread reads a column before it writes it
  const float* max;
  const std::int64_t* targets;
  float *sum, *target, *exp;  // exp may be null
  std::int64_t rows, cols, first_column, valid;
};

template <class T, int V>
__global__ void __launch_bounds__(kVocabularyThreads) exp_sum(ExpSumArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= a.rows) return;
  const float top = a.max[r];
  const std::int64_t target = a.targets[r] - a.first_column;
  const bool local = target >= 0 && target < a.valid;
  float sum = 0;
  for_row<V, 0>(a.cols, [&](int, std::int64_t col) {
    Floats<V> e = filled<V>(0);
    if (col < a.valid) {
      const Floats<V> z = load<V>(a.logits + r * a.cols + col);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (col + k >= a.valid) continue;
        e.v[k] = expf(z.v[k] - top);
        sum += e.v[k];
        if (col + k == target) a.target[r] = z.v[k] - top;
      }
    }
    if (a.exp != nullptr) store(a.exp + r * a.cols + col, e);
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) {
    a.sum[r] = sum;
    if (!local) a.target[r] = 0;
  }
}

// The largest of some logits, and the sum of the exponentials of logits less it. For no logits: kLowest and 0.
struct TopSum {
  float top, sum;
};

// exp(z - top), where all may be kLowest: then each is 0. Of NaN it is NaN.
__device__ inline float exp_below(float z, float top) {
  return expf(top == kLowest ? z : z - top);
}

struct MergeTopSums {
  __device__ TopSum operator()(TopSum x, TopSum y) const {
    const TopSum high = x.top >= y.top ? x : y, low = x.top >= y.top ? y : x;
    return {high.top, high.sum + low.sum * (low.top == high.top ? 1.0f : expf(low.top - high.top))};
  }
};

__device__ inline TopSum from_lane_xor(TopSum x, int mask) {
  return {__shfl_xor_sync(kAllLanes, x.top, mask), __shfl_xor_sync(kAllLanes, x.sum, mask)};
}

// Each thread's sum is relative to the largest logit that it has seen, and is scaled down when a larger one comes.
template <class T, int V>
__global__ void __launch_bounds__(kMaxExpSumThreads)
    max_exp_sum(const T* logits, const std::int64_t* targets, std::int64_t rows, std::int64_t cols, std::int64_t valid,
                float* max, float* sum, float* target) {
  __shared__ SharedArray<TopSum, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= rows) return;
  const T* row = logits + r * cols;
  TopSum own{kLowest, 0};
  for_row<V, 0>(valid, [&](int, std::int64_t col) {
    const Floats<V> z = load<V>(row + col);
    TopSum next{own.top, 0};
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (col + k < valid) next.top = Max()(next.top, z.v[k]);
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (col + k < valid) next.sum += exp_below(z.v[k], next.top);
    own = MergeTopSums()(next, own);
  });
  own = row_reduce(own, TopSum{kLowest, 0}, parts, MergeTopSums());
  if (threadIdx.x != 0) return;
  max[r] = own.top;
  sum[r] = own.sum;
  const std::int64_t t = targets[r];
  target[r] = t >= 0 && t < valid ? load<1>(row + t).v[0] - own.top : 0.0f;
}

// One block: there are few rows, and their order must not depend on timing.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_loss(const float* sum, const float* target, const float* weight, std::int64_t rows,
                       float inv_weight_sum, const float* factor, float* loss) {
  __shared__ SharedArray<double, kWarp> parts;
  double total = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
    const double row = log(static_cast<double>(sum[r])) - target[r];
    total += weight != nullptr ? weight[r] * row : row;
  }
  total = row_reduce(total, 0.0, parts, Sum());
  if (threadIdx.x == 0) *loss = static_cast<float>(total * (factor != nullptr ? *factor : inv_weight_sum));
}

template <class T, class TD>
struct CrossEntropyGradEach {
  static constexpr int kWidth = width_of<T, TD>();
  const T* from;  // logits, or their exponentials
  TD* to;
  const float *max, *sum, *weight;  // max null: `from` are exponentials; weight null: all one
  const std::int64_t* targets;
  float scale;
  std::int64_t cols, first_column, valid;
  const float* factor;  // null: scale
  struct Kept {};
  bool aligned() const { return cuda::aligned<kWidth>(from) && cuda::aligned<kWidth>(to); }
  template <int V>
  __device__ Kept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(Kept, std::int64_t row, std::int64_t col) const {
    Floats<V> d = filled<V>(0);
    if (col < valid) {
      const float all = (factor != nullptr ? *factor : scale) * (weight != nullptr ? weight[row] : 1.0f),
                  factor = all / sum[row];
      const float top = max != nullptr ? max[row] : 0.0f;
      const std::int64_t target = targets[row] - first_column;
      const Floats<V> z = load<V>(from + row * cols + col);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (col + k >= valid) continue;
        d.v[k] = factor * (max != nullptr ? exp_for<TD>(z.v[k] - top) : z.v[k]);
        if (col + k == target) d.v[k] -= all;
      }
    }
    store(to + row * cols + col, d);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::RowMax& op) {
  const std::int64_t rows = op.x.shape().rows(), cols = op.x.shape().cols(), valid = std::min(op.valid, cols);
  if (rows == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T* x = pointer<T>(op.x);
    float* max = pointer<float>(op.max);
    if (cols % V == 0 && aligned<V>(x))
      stream.launch(op.name, row_shape(rows, cols, V, kVocabularyThreads), row_max<T, V>, x, rows, cols, valid, max);
    else
      stream.launch(op.name, row_shape(rows, cols, 1, kVocabularyThreads), row_max<T, 1>, x, rows, cols, valid, max);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::ExpSum& op) {
  const std::int64_t rows = op.logits.shape().rows(), cols = op.logits.shape().cols();
  if (rows == 0) return;
  with_float(op.name, op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const ExpSumArguments<T> a{pointer<T>(op.logits),
                               pointer<float>(op.max),
                               pointer<std::int64_t>(op.targets),
                               pointer<float>(op.sum),
                               pointer<float>(op.target),
                               pointer<float>(op.exp),
                               rows,
                               cols,
                               op.first_column,
                               std::min(op.valid, cols)};
    if (cols % V == 0 && aligned<V>(a.logits) && aligned<V>(a.exp))
      stream.launch(op.name, row_shape(rows, cols, V, kVocabularyThreads), exp_sum<T, V>, a);
    else
      stream.launch(op.name, row_shape(rows, cols, 1, kVocabularyThreads), exp_sum<T, 1>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::MaxExpSum& op) {
  const std::int64_t rows = op.logits.shape().rows(), cols = op.logits.shape().cols(), valid = std::min(op.valid, cols);
  if (rows == 0) return;
  with_float(op.name, op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T* logits = pointer<T>(op.logits);
    const auto launch = [&](int width, auto kernel) {
      stream.launch(op.name, row_shape(rows, cols, width, kMaxExpSumThreads), kernel, logits,
                    pointer<std::int64_t>(op.targets), rows, cols, valid, pointer<float>(op.max),
                    pointer<float>(op.sum), pointer<float>(op.target));
    };
    cols % V == 0 && aligned<V>(logits) ? launch(V, max_exp_sum<T, V>) : launch(1, max_exp_sum<T, 1>);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::CrossEntropyLoss& op) {
  Launch one;
  one.block_x = kVocabularyThreads;
  stream.launch(op.name, one, cross_entropy_loss<kVocabularyThreads>, pointer<float>(op.sum), pointer<float>(op.target),
                pointer<float>(op.weight), op.sum.numel(), op.inv_weight_sum, pointer<float>(op.factor),
                pointer<float>(op.loss));
}

template <class Stream>
void enqueue(Stream& stream, const ops::CrossEntropyGrad& op) {
  const Tensor& source = op.source();
  const std::int64_t rows = source.shape().rows(), cols = source.shape().cols();
  with_float(op.name, source.dtype(), [&](auto source_type) {
    with_float(op.name, op.dlogits.dtype(), [&](auto to_type) {
      using T = decltype(source_type);
      using TD = decltype(to_type);
      launch_columns(stream, op.name, rows, cols,
                     CrossEntropyGradEach<T, TD>{
                         pointer<T>(source), pointer<TD>(op.dlogits), op.exp ? nullptr : pointer<float>(op.max),
                         pointer<float>(op.sum), pointer<float>(op.weight), pointer<std::int64_t>(op.targets), op.scale,
                         cols, op.first_column, std::min(op.valid, cols), pointer<float>(op.factor)});
    });
  });
}

}  // namespace mbench::cuda
