// Attention sinks: one warp for each row of a head's output. The gradient has one block for each head and sums its rows in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/attention_sink.h"

namespace mbench::cuda {

inline constexpr int kSinkRows = 8;       // warps of a block
inline constexpr int kSinkThreads = 256;  // of a head's gradient

template <class T, class S>
struct AttentionSinkArguments {
  T* out;
  float* lse;
  const S* sinks;
  std::int64_t seq, batch, heads, v;
};

template <class T, class S>
__global__ void __launch_bounds__(kWarp* kSinkRows) attention_sink(AttentionSinkArguments<T, S> a) {
  const std::int64_t row = own_row();
  if (row >= a.seq * a.batch * a.heads) return;
  const std::int64_t head = row % a.heads, sample = row / a.heads % a.batch, q = row / a.heads / a.batch;
  float* lse = a.lse + (sample * a.heads + head) * a.seq + q;
  const float own = *lse, sink = to_f32(a.sinks[head]), top = own > sink ? own : sink;
  const float all = top + logf(expf(own - top) + expf(sink - top)), share = expf(own - all);
  T* out = a.out + row * a.v;
  for (std::int64_t i = threadIdx.x; i < a.v; i += kWarp) out[i] = from_f32<T>(to_f32(out[i]) * share);
  // All lanes have read it: the shuffle makes each wait for the others.
  const float written = from_lane_xor(all, 0);
  if (threadIdx.x == 0) *lse = written;
}

template <class T, class S, class G>
struct AttentionSinkGradArguments {
  const T *dout, *out;
  const float* lse;
  const S* sinks;
  G* dsinks;
  std::int64_t seq, batch, heads, v;
};

template <class T, class S, class G>
__global__ void __launch_bounds__(kSinkThreads) attention_sink_grad(AttentionSinkGradArguments<T, S, G> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t head = blockIdx.x;
  const float sink = to_f32(a.sinks[head]);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.seq * a.batch; i += blockDim.x) {
    const std::int64_t sample = i % a.batch, q = i / a.batch;
    const T *out = a.out + (i * a.heads + head) * a.v, *dout = a.dout + (i * a.heads + head) * a.v;
    float dot = 0;
    for (std::int64_t c = 0; c < a.v; ++c) dot += to_f32(out[c]) * to_f32(dout[c]);
    sum += expf(sink - a.lse[(sample * a.heads + head) * a.seq + q]) * dot;
  }
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) a.dsinks[head] = from_f32<G>(to_f32(a.dsinks[head]) - sum);
}

template <class Stream>
void enqueue(Stream& stream, const ops::AttentionSink& op) {
  const Shape& s = op.out.shape();
  const std::int64_t rows = s[0] * s[1] * s[2];
  if (rows == 0) return;
  Launch shape;
  shape.block_x = kWarp;
  shape.block_y = kSinkRows;
  shape.grid_x = static_cast<unsigned>((rows + kSinkRows - 1) / kSinkRows);
  with_float(op.name, op.out.dtype(), [&](auto type) {
    with_float(op.name, op.sinks.dtype(), [&](auto sink_type) {
      using T = decltype(type);
      using S = decltype(sink_type);
      stream.launch(op.name, shape, attention_sink<T, S>,
                    AttentionSinkArguments<T, S>{pointer<T>(op.out), pointer<float>(op.lse), pointer<S>(op.sinks), s[0],
                                                 s[1], s[2], s[3]});
    });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::AttentionSinkGrad& op) {
  const Shape& s = op.out.shape();
  if (s[2] == 0) return;
  Launch shape;
  shape.block_x = kSinkThreads;
  shape.grid_x = static_cast<unsigned>(s[2]);
  with_float(op.name, op.out.dtype(), [&](auto type) {
    with_float(op.name, op.sinks.dtype(), [&](auto sink_type) {
      with_float(op.name, op.dsinks.dtype(), [&](auto gradient_type) {
        using T = decltype(type);
        using S = decltype(sink_type);
        using G = decltype(gradient_type);
        stream.launch(
            op.name, shape, attention_sink_grad<T, S, G>,
            AttentionSinkGradArguments<T, S, G>{pointer<T>(op.dout), pointer<T>(op.out), pointer<float>(op.lse),
                                                pointer<S>(op.sinks), pointer<G>(op.dsinks), s[0], s[1], s[2], s[3]});
      });
    });
  });
}

}  // namespace mbench::cuda
