// What attention keeps of its scores, in addition to the probabilities: the log of the sum of every row.
#pragma once
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/attention.h"

namespace mbench::cuda {

inline constexpr int kStatisticsRows = 8;  // of a block

// lse[row] = log of the sum of exp(scale * score) over the keys that the query sees; one warp for each row. A row of nothing but NaN is
// NaN, one without keys is -infinity.
template <class T>
__global__ void __launch_bounds__(kWarp* kStatisticsRows)
    row_statistics(const T* scores, float* lse, std::int64_t rows, std::int64_t heads, std::int64_t seq, float scale,
                   bool causal, const std::uint8_t* keep, const std::int64_t* bounds) {
  const std::int64_t row = own_row();
  if (row >= rows) return;
  const T* s = scores + row * seq;
  if (keep != nullptr) keep += row / seq / heads * seq;
  const std::int64_t query = row % seq, end = bounds != nullptr ? bounds[seq + query] : seq,
                     first = bounds != nullptr ? bounds[query] : 0,
                     visible = causal && query + 1 < end ? query + 1 : end;
  const auto hidden = [&](std::int64_t k) { return keep != nullptr && keep[k] == 0; };
  float top = kLowest;
  bool any = false;  // key is visible
  for (std::int64_t k = first + threadIdx.x; k < visible; k += kWarp) {
    if (hidden(k)) continue;
    any = true;
    top = Max()(top, scale * to_f32(s[k]));
  }
  top = warp_reduce(top, Max());
  any = __ballot_sync(kAllLanes, any ? 1 : 0) != 0;
  float sum = 0;
  for (std::int64_t k = first + threadIdx.x; k < visible; k += kWarp)
    if (!hidden(k)) sum += expf(scale * to_f32(s[k]) - top);
  sum = warp_reduce(sum, Sum());
  if (threadIdx.x == 0) lse[row] = any ? top + logf(sum) : kLowest;
}

// Writes the statistics of the scores to op.lse. The scores are where the probabilities will be.
template <class Stream>
void enqueue_statistics(Stream& stream, const ops::Attention& op) {
  const ops::AttentionShape& s = op.shape;
  const std::int64_t rows = s.batches() * s.seq;
  Launch shape;
  shape.block_x = kWarp;
  shape.block_y = kStatisticsRows;
  shape.grid_x = static_cast<unsigned>((rows + kStatisticsRows - 1) / kStatisticsRows);
  with_float(op.name, op.probs.dtype(), [&](auto type) {
    using T = decltype(type);
    stream.launch(op.name, shape, row_statistics<T>, pointer<T>(op.probs), pointer<float>(op.lse), rows, s.heads, s.seq,
                  s.scale, s.causal, pointer<std::uint8_t>(s.keep), pointer<std::int64_t>(s.document_bounds));
  });
}

}  // namespace mbench::cuda
