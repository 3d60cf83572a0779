// A causal convolution of each channel and SiLU: a thread for each output. The gradients of weights are summed over chunks of positions,
// and then over chunks, in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/causal_conv.h"

namespace mbench::cuda {

inline constexpr int kConvThreads = 128;

template <class T>
struct ConvArguments {
  const T *x, *weight, *bias, *dy;
  T *y, *dx;
  float* partial;
  ops::ConvShape s;
  std::int64_t chunk;  // positions that a thread sums

  __device__ float x_at(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    const std::int64_t g = channel / s.channels, c = channel % s.channels;
    return to_f32(x[((t * s.batch + b) * s.groups + g) * s.width + s.first + c]);
  }
  // Before SiLU.
  __device__ float sum(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    float sum = bias != nullptr ? to_f32(bias[channel]) : 0.0f;
    for (std::int64_t k = 0; k < s.taps; ++k)
      if (t - s.taps + 1 + k >= 0) sum += to_f32(weight[channel * s.taps + k]) * x_at(t - s.taps + 1 + k, b, channel);
    return sum;
  }
  __device__ float dsum(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    const float z = sum(t, b, channel), gate = 1.0f / (1.0f + expf(-z));
    return to_f32(dy[(t * s.batch + b) * s.groups * s.channels + channel]) * gate * (1.0f + z * (1.0f - gate));
  }
  __device__ std::int64_t all() const { return s.groups * s.channels; }
};

template <class T>
__global__ void __launch_bounds__(kConvThreads) causal_conv(ConvArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.s.seq * a.s.batch * a.all()) return;
  const std::int64_t channel = i % a.all(), b = i / a.all() % a.s.batch, t = i / a.all() / a.s.batch;
  const float z = a.sum(t, b, channel);
  a.y[i] = from_f32<T>(z / (1.0f + expf(-z)));
}

template <class T>
__global__ void __launch_bounds__(kConvThreads) causal_conv_dx(ConvArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.s.seq * a.s.batch * a.all()) return;
  const std::int64_t channel = i % a.all(), b = i / a.all() % a.s.batch, t = i / a.all() / a.s.batch;
  float dx = 0;
  for (std::int64_t k = 0; k < a.s.taps; ++k)
    if (const std::int64_t to = t + a.s.taps - 1 - k; to < a.s.seq)
      dx += to_f32(a.weight[channel * a.s.taps + k]) * a.dsum(to, b, channel);
  const std::int64_t g = channel / a.s.channels, c = channel % a.s.channels;
  a.dx[((t * a.s.batch + b) * a.s.groups + g) * a.s.width + a.s.first + c] = from_f32<T>(dx);
}

// [chunks][channels * taps, channels]: sums for the weights, then for the bias.
template <class T>
__global__ void __launch_bounds__(kConvThreads) causal_conv_sums(ConvArguments<T> a) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, part = blockIdx.y;
  if (channel >= a.all()) return;
  const std::int64_t begin = part * a.chunk, end = begin + a.chunk < a.s.seq ? begin + a.chunk : a.s.seq;
  float sums[ops::kMostTaps] = {}, bias = 0;
  for (std::int64_t b = 0; b < a.s.batch; ++b)
    for (std::int64_t t = begin; t < end; ++t) {
      const float d = a.dsum(t, b, channel);
      bias += d;
      for (int k = 0; k < ops::kMostTaps; ++k)
        if (k < a.s.taps && t - a.s.taps + 1 + k >= 0) sums[k] += d * a.x_at(t - a.s.taps + 1 + k, b, channel);
    }
  float* to = a.partial + part * a.all() * (a.s.taps + 1);
  for (int k = 0; k < ops::kMostTaps; ++k)
    if (k < a.s.taps) to[channel * a.s.taps + k] = sums[k];
  to[a.all() * a.s.taps + channel] = bias;
}

template <class T>
Launch conv_launch(const ConvArguments<T>& a) {
  Launch shape;
  shape.block_x = kConvThreads;
  const std::int64_t all = a.s.seq * a.s.batch * a.s.groups * a.s.channels;
  shape.grid_x = static_cast<unsigned>((all + kConvThreads - 1) / kConvThreads);
  return shape;
}

template <class T, class Op>
ConvArguments<T> conv_arguments(const Op& op) {
  ConvArguments<T> a{};
  a.x = pointer<T>(op.x), a.weight = pointer<T>(op.weight), a.bias = pointer<T>(op.bias);
  a.s = op.shape();
  return a;
}

template <class Stream>
void enqueue(Stream& stream, const ops::CausalConv& op) {
  if (op.y.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ConvArguments<T> a = conv_arguments<T>(op);
    a.y = pointer<T>(op.y);
    stream.launch(op.name, conv_launch(a), causal_conv<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::CausalConvGrad& op) {
  if (op.dy.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ConvArguments<T> a = conv_arguments<T>(op);
    a.dy = pointer<T>(op.dy), a.dx = pointer<T>(op.dx);
    stream.launch(op.name, conv_launch(a), causal_conv_dx<T>, a);
    if (!op.dweight && !op.dbias) return;
    const std::int64_t channels = a.s.groups * a.s.channels, stride = channels * (a.s.taps + 1);
    a.chunk = std::max<std::int64_t>(16, (a.s.seq + 127) / 128);
    const std::int64_t chunks = (a.s.seq + a.chunk - 1) / a.chunk;
    a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(chunks * stride) * sizeof(float)));
    Launch sums;
    sums.block_x = kConvThreads;
    sums.grid_x = static_cast<unsigned>((channels + kConvThreads - 1) / kConvThreads);
    sums.grid_y = static_cast<unsigned>(chunks);
    stream.launch(op.name, sums, causal_conv_sums<T>, a);
    const auto add = [&](const Tensor& to, const float* from) {
      if (!to) return;
      with_float(op.name, to.dtype(), [&](auto gradient) {
        using G = decltype(gradient);
        stream.launch(op.name, add_chunks_shape(to.numel(), false), add_chunks<G, G>, from, chunks, stride, to.numel(),
                      pointer<G>(to), static_cast<G*>(nullptr));
      });
    };
    add(op.dweight, a.partial);
    add(op.dbias, a.partial + channels * a.s.taps);
  });
}

}  // namespace mbench::cuda
