// The causal or padding mask as bytes, also of other documents: 1 = hidden.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/attention_mask.h"

namespace mbench::cuda {

struct AttentionMaskEach {
  static constexpr int kWidth = 16;
  const std::uint8_t* keep;  // [batch, keys], null: causal
  std::uint8_t* mask;        // [batch, queries, keys], rows of keys
  std::int64_t queries, keys;
  const std::int64_t* bounds;  // [2, queries], may be null
  struct Kept {};
  bool aligned() const { return cuda::aligned<kWidth>(keep, mask); }
  template <int V>
  __device__ Kept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(Kept, std::int64_t row, std::int64_t key) const {
    Pack<std::uint8_t, V> hidden;
    if (keep != nullptr) {
      hidden = load_pack<V>(keep + row / queries * keys + key);
#pragma unroll
      for (int k = 0; k < V; ++k) hidden.v[k] = hidden.v[k] == 0 ? 1 : 0;
    } else {
      const std::int64_t query = row % queries;
#pragma unroll
      for (int k = 0; k < V; ++k) hidden.v[k] = key + k > query ? 1 : 0;
    }
    if (bounds != nullptr) {
      const std::int64_t first = bounds[row % queries], end = bounds[queries + row % queries];
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (key + k < first || key + k >= end) hidden.v[k] = 1;
    }
    store_pack(mask + row * keys + key, hidden);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::AttentionMask& op) {
  const Shape& shape = op.mask.shape();
  launch_columns(stream, op.name, shape[0] * shape[1], shape[2],
                 AttentionMaskEach{pointer<std::uint8_t>(op.keep), pointer<std::uint8_t>(op.mask), shape[1], shape[2],
                                   pointer<std::int64_t>(op.bounds)});
}

}  // namespace mbench::cuda
