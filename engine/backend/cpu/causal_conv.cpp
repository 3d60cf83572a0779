#include "engine/ops/causal_conv.h"

#include <vector>

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// Channels that one thread takes along the whole sequence: their rows and taps stay in the first-level cache.
constexpr std::int64_t kChannels = 64;

// Weights of some channels as [taps][kChannels], and their bias.
class ConvTaps {
 public:
  template <class T>
  void load_from(const T* weight, const T* bias, std::int64_t first, std::int64_t n, std::int64_t taps) {
    w_.resize(static_cast<std::size_t>(taps * kChannels));
    std::vector<float> rows(static_cast<std::size_t>(n * taps));
    to_floats(weight + first * taps, rows.data(), n * taps);
    for (std::int64_t k = 0; k < taps; ++k)
      for (std::int64_t c = 0; c < n; ++c)
        w_[static_cast<std::size_t>(k * kChannels + c)] = rows[static_cast<std::size_t>(c * taps + k)];
    for (std::int64_t c = 0; c < n; ++c) bias_[c] = 0;
    if (bias != nullptr) to_floats(bias + first, bias_, n);
  }
  const float* at(std::int64_t k) const { return w_.data() + k * kChannels; }
  const float* bias() const { return bias_; }

 private:
  std::vector<float> w_;
  float bias_[kChannels];
};

// The rows of the last `taps` positions, of kChannels each: row(t) of position t.
class ConvWindow {
 public:
  explicit ConvWindow(std::int64_t taps) : taps_(taps), rows_(static_cast<std::size_t>(taps * kChannels)) {}
  float* row(std::int64_t t) { return rows_.data() + (t % taps_) * kChannels; }
  void clear() { std::fill(rows_.begin(), rows_.end(), 0.0f); }

 private:
  std::int64_t taps_;
  std::vector<float> rows_;
};

// sum = bias + the taps on the positions up to t; x has position t.
void convolve(const ConvTaps& taps, std::int64_t count, ConvWindow& x, std::int64_t t, std::int64_t n, float* sum) {
  const float* bias = taps.bias();
  for (std::int64_t i = 0; i < n; ++i) sum[i] = bias[i];
  for (std::int64_t k = std::max<std::int64_t>(0, count - 1 - t); k < count; ++k) {
    const float *w = taps.at(k), *row = x.row(t - count + 1 + k);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] += w[i] * row[i];
  }
}

// f(group, first channel, count) for the tiles of all groups.
template <class F>
void for_conv_tiles(const ops::ConvShape& s, F&& f) {
  const std::int64_t tiles = (s.channels + kChannels - 1) / kChannels;
#pragma omp parallel for schedule(static) if (s.seq * s.batch * s.groups * s.channels > kParallelFrom)
  for (std::int64_t i = 0; i < s.groups * tiles; ++i) {
    const std::int64_t first = i % tiles * kChannels;
    f(i / tiles, first, std::min(kChannels, s.channels - first));
  }
}

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

// Sums of one tile for the gradients of weights: [taps + 1][kChannels], the bias's last.
struct TileSums {
  std::vector<float> sums;
  explicit TileSums(std::int64_t taps) : sums(static_cast<std::size_t>((taps + 1) * kChannels), 0.0f) {}
  float* at(std::int64_t k) { return sums.data() + k * kChannels; }
};

// Adds what position t gives to the gradients of x at t and before, which `dx` collects.
void spread_back(const ConvTaps& taps, std::int64_t count, ConvWindow& x, ConvWindow& dx, std::int64_t t,
                 std::int64_t n, const float* d, TileSums& sums) {
  for (std::int64_t k = std::max<std::int64_t>(0, count - 1 - t); k < count; ++k) {
    const float *w = taps.at(k), *row = x.row(t - count + 1 + k);
    float *to = dx.row(t - count + 1 + k), *sum = sums.at(k);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      to[i] += w[i] * d[i];
      sum[i] += row[i] * d[i];
    }
  }
  float* bias = sums.at(count);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) bias[i] += d[i];
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

// Adds to `count` elements of a gradient from element `at` on, `step` apart.
void add_to_weights(const Tensor& to, std::int64_t at, std::int64_t step, std::int64_t count, const float* sums) {
  with_type(to.dtype(), [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < count; ++i) {
      T* place = to.as<T>() + at + i * step;
      float was = 0;
      to_floats(static_cast<const T*>(place), &was, 1);
      was += sums[i];
      from_floats(&was, place, 1);
    }
  });
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
