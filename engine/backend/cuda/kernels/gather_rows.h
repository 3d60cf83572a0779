// Sums over the rows of an MoE's experts that belong to a token, in the order of the token's slots.
#pragma once
#include "engine/backend/cuda/kernels/each.h"

namespace mbench::cuda {

// Weights may be null: all one.
template <class T>
struct GatherEach {
  static constexpr int kWidth = width_of<T>();
  const T* from;
  const std::int64_t* of_pair;  // rows
  const float* weights;
  T* to;
  std::int64_t cols, k, rows;
  struct Kept {};
  bool aligned() const { return cuda::aligned<kWidth>(from, to); }
  template <int V>
  __device__ Kept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(Kept, std::int64_t token, std::int64_t col) const {
    Floats<V> sum = filled<V>(0);
    for (std::int64_t pair = token * k; pair < token * k + k; ++pair) {
      const std::int64_t row = of_pair[pair];
      if (row < 0 || row >= rows) continue;
      const float weight = weights != nullptr ? weights[pair] : 1.0f;
      const Floats<V> z = load<V>(from + row * cols + col);
#pragma unroll
      for (int i = 0; i < V; ++i) sum.v[i] += weight * z.v[i];
    }
    store(to + token * cols + col, sum);
  }
};

}  // namespace mbench::cuda
