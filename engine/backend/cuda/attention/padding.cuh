// Padding for fused attention, which takes the number of a sample's keys instead of a mask.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/attention.h"

namespace mbench::cuda {

// keys[b]: how many keys of sample b are kept; queries[b]: seq. One warp for each sample. If the kept keys are not the first ones, or none
// is kept, the device stops: no number of keys would be the same mask.
template <class Count>
__global__ void count_keys_of_samples(const std::uint8_t* keep, std::int64_t seq, Count* queries, Count* keys) {
  const std::int64_t sample = blockIdx.x;
  Count count = 0, end = 0;  // end: beyond the last kept key
  for (std::int64_t k = threadIdx.x; k < seq; k += kWarp) {
    if (keep[sample * seq + k] == 0) continue;
    ++count;
    end = static_cast<Count>(k) + 1;
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    count += __shfl_xor_sync(kAllLanes, count, lanes);
    const Count other = __shfl_xor_sync(kAllLanes, end, lanes);
    end = end > other ? end : other;
  }
  if (threadIdx.x != 0) return;
  if (count != end || count == 0) __trap();
  queries[sample] = static_cast<Count>(seq);
  keys[sample] = count;
}

template <class Stream>
void enqueue_count_keys(Stream& stream, std::string_view op, const ops::AttentionShape& s, std::int32_t* queries,
                        std::int32_t* keys) {
  Launch shape;
  shape.grid_x = static_cast<unsigned>(s.batch);
  shape.block_x = kWarp;
  stream.launch(op, shape, count_keys_of_samples<std::int32_t>, pointer<std::uint8_t>(s.keep), s.seq, queries, keys);
}

// The gradients of hidden keys and their values are zero. They are written here, because it is not documented what a fused kernel leaves
// beyond a sample's keys. Row [s, b] has the heads' columns; all are stored in 16 bits.
struct ClearHiddenKeys {
  static constexpr int kWidth = 8;
  const std::uint8_t* keep;  // [batch, seq]
  std::uint16_t *dk, *dv;
  std::int64_t batch, heads, seq, head_dim;
  std::int64_t dk_row, dk_head, dv_row, dv_head;  // strides
  struct Column {
    std::int64_t head, at;
  };
  bool aligned() const {
    return cuda::aligned<kWidth>(dk, dv) && head_dim % kWidth == 0 && dk_row % kWidth == 0 && dk_head % kWidth == 0 &&
           dv_row % kWidth == 0 && dv_head % kWidth == 0;
  }
  template <int V>
  __device__ Column column(std::int64_t col) const {
    return {col / head_dim, col % head_dim};
  }
  template <int V>
  __device__ void apply(const Column& c, std::int64_t row, std::int64_t) const {
    const std::int64_t key = row / batch, sample = row % batch;
    if (keep[sample * seq + key] != 0) return;
    Pack<std::uint16_t, V> zero;
#pragma unroll
    for (int i = 0; i < V; ++i) zero.v[i] = 0;
    const std::int64_t matrix = sample * heads + c.head;
    store_pack(dk + matrix * dk_head + key * dk_row + c.at, zero);
    store_pack(dv + matrix * dv_head + key * dv_row + c.at, zero);
  }
};

template <class Stream>
void enqueue_clear_hidden_keys(Stream& stream, const ops::AttentionGrad& op) {
  const ops::AttentionShape& s = op.shape;
  const auto at = [](const ops::Matrix& m) { return m.data.as<std::uint16_t>() + m.offset; };
  launch_columns(stream, op.name, s.seq * s.batch, s.heads * s.head_dim,
                 ClearHiddenKeys{pointer<std::uint8_t>(s.keep), at(op.dk), at(op.dv), s.batch, s.heads, s.seq,
                                 s.head_dim, op.dk.ld, op.dk.batch_stride, op.dv.ld, op.dv.batch_stride});
}

}  // namespace mbench::cuda
