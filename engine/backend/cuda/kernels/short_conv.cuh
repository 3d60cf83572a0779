// A gated convolution of each channel: a thread for each output. The gradient of the weights is summed over chunks of positions, and then
// over chunks, in a fixed order.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/short_conv.h"

namespace mbench::cuda {

inline constexpr int kShortConvThreads = 128;

template <class T>
struct ShortConvArguments {
  const T *x, *weight, *dy;
  T *y, *dx;
  float* partial;
  ops::ConvShape s;
  std::int64_t chunk;  // positions that a thread sums

  __device__ std::int64_t all() const { return s.groups * s.channels; }
  // Part 0 is B, 1 is C, 2 is x.
  __device__ std::int64_t place(std::int64_t t, std::int64_t b, std::int64_t channel, int part) const {
    return ((t * s.batch + b) * s.groups + channel / s.channels) * s.width + part * s.channels + channel % s.channels;
  }
  __device__ float in(std::int64_t t, std::int64_t b, std::int64_t channel, int part) const {
    return to_f32(x[place(t, b, channel, part)]);
  }
  __device__ float u(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    return in(t, b, channel, 0) * in(t, b, channel, 2);
  }
  __device__ float tap(std::int64_t channel, std::int64_t k) const { return to_f32(weight[channel * s.taps + k]); }
  __device__ float sum(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    float sum = 0;
    for (std::int64_t k = 0; k < s.taps; ++k)
      if (t - s.taps + 1 + k >= 0) sum += tap(channel, k) * u(t - s.taps + 1 + k, b, channel);
    return sum;
  }
  __device__ float dy_at(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    return to_f32(dy[(t * s.batch + b) * all() + channel]);
  }
  // The gradient of the convolution's output.
  __device__ float dsum(std::int64_t t, std::int64_t b, std::int64_t channel) const {
    return dy_at(t, b, channel) * in(t, b, channel, 1);
  }
};

template <class T>
__global__ void __launch_bounds__(kShortConvThreads) short_conv(ShortConvArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.s.seq * a.s.batch * a.all()) return;
  const std::int64_t channel = i % a.all(), b = i / a.all() % a.s.batch, t = i / a.all() / a.s.batch;
  a.y[i] = from_f32<T>(a.in(t, b, channel, 1) * a.sum(t, b, channel));
}

template <class T>
__global__ void __launch_bounds__(kShortConvThreads) short_conv_dx(ShortConvArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.s.seq * a.s.batch * a.all()) return;
  const std::int64_t channel = i % a.all(), b = i / a.all() % a.s.batch, t = i / a.all() / a.s.batch;
  float du = 0;
  for (std::int64_t k = 0; k < a.s.taps; ++k)
    if (const std::int64_t to = t + a.s.taps - 1 - k; to < a.s.seq) du += a.tap(channel, k) * a.dsum(to, b, channel);
  a.dx[a.place(t, b, channel, 0)] = from_f32<T>(du * a.in(t, b, channel, 2));
  a.dx[a.place(t, b, channel, 1)] = from_f32<T>(a.dy_at(t, b, channel) * a.sum(t, b, channel));
  a.dx[a.place(t, b, channel, 2)] = from_f32<T>(du * a.in(t, b, channel, 0));
}

// [chunks][channels * taps].
template <class T>
__global__ void __launch_bounds__(kShortConvThreads) short_conv_sums(ShortConvArguments<T> a) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, part = blockIdx.y;
  if (channel >= a.all()) return;
  const std::int64_t begin = part * a.chunk, end = begin + a.chunk < a.s.seq ? begin + a.chunk : a.s.seq;
  float sums[ops::kMostTaps] = {};
  for (std::int64_t b = 0; b < a.s.batch; ++b)
    for (std::int64_t t = begin; t < end; ++t) {
      const float d = a.dsum(t, b, channel);
      for (int k = 0; k < ops::kMostTaps; ++k)
        if (k < a.s.taps && t - a.s.taps + 1 + k >= 0) sums[k] += d * a.u(t - a.s.taps + 1 + k, b, channel);
    }
  float* to = a.partial + (part * a.all() + channel) * a.s.taps;
  for (int k = 0; k < ops::kMostTaps; ++k)
    if (k < a.s.taps) to[k] = sums[k];
}

template <class T, class Op>
ShortConvArguments<T> short_conv_arguments(const Op& op) {
  ShortConvArguments<T> a{};
  a.x = pointer<T>(op.x), a.weight = pointer<T>(op.weight);
  a.s = op.shape();
  return a;
}

inline Launch short_conv_launch(std::int64_t elements) {
  Launch shape;
  shape.block_x = kShortConvThreads;
  shape.grid_x = static_cast<unsigned>((elements + kShortConvThreads - 1) / kShortConvThreads);
  return shape;
}

template <class Stream>
void enqueue(Stream& stream, const ops::ShortConv& op) {
  if (op.y.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ShortConvArguments<T> a = short_conv_arguments<T>(op);
    a.y = pointer<T>(op.y);
    stream.launch(op.name, short_conv_launch(op.y.numel()), short_conv<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::ShortConvGrad& op) {
  if (op.dy.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ShortConvArguments<T> a = short_conv_arguments<T>(op);
    a.dy = pointer<T>(op.dy), a.dx = pointer<T>(op.dx);
    stream.launch(op.name, short_conv_launch(op.dy.numel()), short_conv_dx<T>, a);
    if (!op.dweight) return;
    const std::int64_t channels = a.s.groups * a.s.channels, weights = channels * a.s.taps;
    a.chunk = std::max<std::int64_t>(16, (a.s.seq + 127) / 128);
    const std::int64_t chunks = (a.s.seq + a.chunk - 1) / a.chunk;
    a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(chunks * weights) * sizeof(float)));
    Launch sums = short_conv_launch(channels);
    sums.grid_y = static_cast<unsigned>(chunks);
    stream.launch(op.name, sums, short_conv_sums<T>, a);
    with_float(op.name, op.dweight.dtype(), [&](auto gradient) {
      using G = decltype(gradient);
      stream.launch(op.name, add_chunks_shape(weights, false), add_chunks<G, G>, static_cast<const float*>(a.partial),
                    chunks, weights, weights, pointer<G>(op.dweight), static_cast<G*>(nullptr));
    });
  });
}

}  // namespace mbench::cuda
