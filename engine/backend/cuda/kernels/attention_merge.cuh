// Merges attention over two sets of keys: first the outputs by rows, then the statistics, since the outputs need the old ones.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/attention_merge.h"

namespace mbench::cuda {

// log(exp(a) + exp(b)); -infinity where neither has a key. NaN is kept.
__device__ inline float log_of_both(float a, float b) {
  const float top = a < b ? b : a, less = a < b ? a : b;
  return top == kLowest ? less : top + log1pf(expf(less - top));
}

struct MergeNothing {};

template <class T, class TP>
struct AttentionMergeEach {
  static constexpr int kWidth = width_of<TP>() < width_of<T>() ? width_of<TP>() : width_of<T>();
  T* out;
  const TP* part;
  const float *lse, *part_lse;
  std::int64_t cols, seq, heads;  // heads of all samples
  bool aligned() const { return cuda::aligned<kWidth>(out) && cuda::aligned<kWidth>(part); }
  template <int V>
  __device__ MergeNothing column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(MergeNothing, std::int64_t row, std::int64_t col) const {
    const std::int64_t statistics = row % heads * seq + row / heads, at = row * cols + col;
    const float a = lse[statistics], b = part_lse[statistics], all = log_of_both(a, b);
    const float kept = a == kLowest ? 0.0f : expf(a - all), added = b == kLowest ? 0.0f : expf(b - all);
    Floats<V> y = load<V>(out + at);
    const Floats<V> p = load<V>(part + at);
#pragma unroll
    for (int k = 0; k < V; ++k) y.v[k] = kept * y.v[k] + added * p.v[k];
    store(out + at, y);
  }
};

struct MergedStatisticsEach {
  static constexpr int kWidth = 1;
  float* lse;
  const float* part_lse;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    lse[i] = log_of_both(lse[i], part_lse[i]);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::AttentionMerge& op) {
  const Shape& s = op.out.shape();
  float* lse = pointer<float>(op.lse);
  const float* part_lse = pointer<float>(op.added_lse);
  with_float(op.name, op.out.dtype(), [&](auto type) {
    with_float(op.name, op.added.dtype(), [&](auto part_type) {
      using T = decltype(type);
      using TP = decltype(part_type);
      launch_columns(
          stream, op.name, s[0] * s[1] * s[2], s[3],
          AttentionMergeEach<T, TP>{pointer<T>(op.out), pointer<TP>(op.added), lse, part_lse, s[3], s[0], s[1] * s[2]});
    });
  });
  launch_flat(stream, op.name, op.lse.numel(), MergedStatisticsEach{lse, part_lse});
}

}  // namespace mbench::cuda
