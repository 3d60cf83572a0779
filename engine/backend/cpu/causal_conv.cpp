#include "engine/ops/causal_conv.h"

#include "engine/backend/cpu/conv_tiles.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

template <class T>
void convolve_tile(const ops::CausalConv& op, const ops::ConvShape& s, std::int64_t group, std::int64_t first,
                   std::int64_t n) {
  ConvTaps taps;
  taps.load_from<T>(op.weight.as<T>(), op.bias ? op.bias.as<T>() : nullptr, group * s.channels + first, n, s.taps);
  ConvWindow x(s.taps);
  float sum[kChannels], room[kChannels];
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.seq; ++t) {
      const std::int64_t row = (t * s.batch + b) * s.groups + group;
      to_floats(static_cast<const T*>(op.x.as<T>()) + row * s.width + s.first + first, x.row(t), n);
      convolve(taps, s.taps, x, t, n, sum);
      T* to = op.y.as<T>() + row * s.channels + first;
      float* y = target(to, room);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = sum[i] / (1.0f + exp_f32(-sum[i]));
      store(y, to, n);
    }
}

template <class T>
void gradient_of_tile(const ops::CausalConvGrad& op, const ops::ConvShape& s, std::int64_t group, std::int64_t first,
                      std::int64_t n, TileSums& sums) {
  ConvTaps taps;
  taps.load_from<T>(op.weight.as<T>(), op.bias ? op.bias.as<T>() : nullptr, group * s.channels + first, n, s.taps);
  ConvWindow x(s.taps), dx(s.taps);
  float d[kChannels], room[kChannels];
  for (std::int64_t b = 0; b < s.batch; ++b) {
    dx.clear();
    const auto row_of = [&](std::int64_t t) { return (t * s.batch + b) * s.groups + group; };
    const auto finish = [&](std::int64_t t) {  // no later position adds to it
      from_floats(dx.row(t), op.dx.as<T>() + row_of(t) * s.width + s.first + first, n);
      std::fill(dx.row(t), dx.row(t) + n, 0.0f);
    };
    for (std::int64_t t = 0; t < s.seq; ++t) {
      to_floats(static_cast<const T*>(op.x.as<T>()) + row_of(t) * s.width + s.first + first, x.row(t), n);
      convolve(taps, s.taps, x, t, n, d);
      const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + row_of(t) * s.channels + first, room, n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float gate = 1.0f / (1.0f + exp_f32(-d[i]));
        d[i] = dy[i] * gate * (1.0f + d[i] * (1.0f - gate));
      }
      spread_back(taps, s.taps, x, dx, t, n, d, sums);
      if (t >= s.taps - 1) finish(t - s.taps + 1);
    }
    for (std::int64_t t = std::max<std::int64_t>(0, s.seq - s.taps + 1); t < s.seq; ++t) finish(t);
  }
}

}  // namespace

template <>
void compute(CpuOps&, const ops::CausalConv& op) {
  const ops::ConvShape s = op.shape();
  with_type(op.x.dtype(), [&](auto type) {
    for_conv_tiles(s, [&](std::int64_t group, std::int64_t first, std::int64_t n) {
      convolve_tile<decltype(type)>(op, s, group, first, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::CausalConvGrad& op) {
  const ops::ConvShape s = op.shape();
  with_type(op.x.dtype(), [&](auto type) {
    for_conv_tiles(s, [&](std::int64_t group, std::int64_t first, std::int64_t n) {
      TileSums sums(s.taps);
      gradient_of_tile<decltype(type)>(op, s, group, first, n, sums);
      const std::int64_t channel = group * s.channels + first;
      if (op.dweight)
        for (std::int64_t k = 0; k < s.taps; ++k)
          add_to_weights(op.dweight, channel * s.taps + k, s.taps, n, sums.at(k));
      if (op.dbias) add_to_weights(op.dbias, channel, 1, n, sums.at(s.taps));
    });
  });
}

}  // namespace mbench::cpu
