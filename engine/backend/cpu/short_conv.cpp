#include "engine/ops/short_conv.h"

#include "engine/backend/cpu/conv_tiles.h"
#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {
namespace {

// Where B, C and x of some channels lie at a position.
struct ShortPlace {
  std::int64_t b, c, x, y;
  ShortPlace(const ops::ConvShape& s, std::int64_t row, std::int64_t first)
      : b(row * s.width + first), c(b + s.channels), x(c + s.channels), y(row * s.channels + first) {}
};

template <class T>
void short_conv_tile(const ops::ShortConv& op, const ops::ConvShape& s, std::int64_t group, std::int64_t first,
                     std::int64_t n) {
  ConvTaps taps;
  taps.load_from<T>(op.weight.as<T>(), nullptr, group * s.channels + first, n, s.taps);
  ConvWindow u(s.taps);
  const T* in = op.x.as<T>();
  float sum[kChannels], b_room[kChannels], c_room[kChannels], x_room[kChannels], y_room[kChannels];
  for (std::int64_t sample = 0; sample < s.batch; ++sample)
    for (std::int64_t t = 0; t < s.seq; ++t) {
      const ShortPlace at(s, (t * s.batch + sample) * s.groups + group, first);
      const float *b = load(in + at.b, b_room, n), *c = load(in + at.c, c_room, n), *x = load(in + at.x, x_room, n);
      float* row = u.row(t);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) row[i] = b[i] * x[i];
      convolve(taps, s.taps, u, t, n, sum);
      T* to = op.y.as<T>() + at.y;
      float* y = target(to, y_room);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = c[i] * sum[i];
      store(y, to, n);
    }
}

// The rows of B and x stay until no later position adds to the gradient of their product.
struct ShortWindows {
  explicit ShortWindows(std::int64_t taps) : b(taps), x(taps), u(taps), du(taps) {}
  ConvWindow b, x, u, du;
};

template <class T>
void short_conv_tile_back(const ops::ShortConvGrad& op, const ops::ConvShape& s, std::int64_t group, std::int64_t first,
                          std::int64_t n, TileSums& sums) {
  ConvTaps taps;
  taps.load_from<T>(op.weight.as<T>(), nullptr, group * s.channels + first, n, s.taps);
  ShortWindows rows(s.taps);
  const T* in = op.x.as<T>();
  float d[kChannels], of_c[kChannels], c_room[kChannels], dy_room[kChannels], of_b[kChannels], of_x[kChannels];
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    rows.du.clear();
    const auto place = [&](std::int64_t t) { return ShortPlace(s, (t * s.batch + sample) * s.groups + group, first); };
    const auto finish = [&](std::int64_t t) {
      const ShortPlace at = place(t);
      const float *b = rows.b.row(t), *x = rows.x.row(t);
      float* du = rows.du.row(t);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) of_b[i] = du[i] * x[i], of_x[i] = du[i] * b[i];
      from_floats(of_b, op.dx.as<T>() + at.b, n);
      from_floats(of_x, op.dx.as<T>() + at.x, n);
      std::fill(du, du + n, 0.0f);
    };
    for (std::int64_t t = 0; t < s.seq; ++t) {
      const ShortPlace at = place(t);
      float *b = rows.b.row(t), *x = rows.x.row(t), *u = rows.u.row(t);
      to_floats(in + at.b, b, n);
      to_floats(in + at.x, x, n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) u[i] = b[i] * x[i];
      convolve(taps, s.taps, rows.u, t, n, d);
      const float *c = load(in + at.c, c_room, n), *dy = load(static_cast<const T*>(op.dy.as<T>()) + at.y, dy_room, n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) of_c[i] = dy[i] * d[i], d[i] = dy[i] * c[i];
      from_floats(of_c, op.dx.as<T>() + at.c, n);
      spread_back(taps, s.taps, rows.u, rows.du, t, n, d, sums);
      if (t >= s.taps - 1) finish(t - s.taps + 1);
    }
    for (std::int64_t t = std::max<std::int64_t>(0, s.seq - s.taps + 1); t < s.seq; ++t) finish(t);
  }
}

}  // namespace

template <>
void compute(CpuOps&, const ops::ShortConv& op) {
  const ops::ConvShape s = op.shape();
  with_type(op.x.dtype(), [&](auto type) {
    for_conv_tiles(s, [&](std::int64_t group, std::int64_t first, std::int64_t n) {
      short_conv_tile<decltype(type)>(op, s, group, first, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::ShortConvGrad& op) {
  const ops::ConvShape s = op.shape();
  with_type(op.x.dtype(), [&](auto type) {
    for_conv_tiles(s, [&](std::int64_t group, std::int64_t first, std::int64_t n) {
      TileSums sums(s.taps);
      short_conv_tile_back<decltype(type)>(op, s, group, first, n, sums);
      if (!op.dweight) return;
      const std::int64_t channel = group * s.channels + first;
      for (std::int64_t k = 0; k < s.taps; ++k) add_to_weights(op.dweight, channel * s.taps + k, s.taps, n, sums.at(k));
    });
  });
}

}  // namespace mbench::cpu
