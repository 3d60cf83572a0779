// What convolutions along the sequence share: each thread takes some channels along all positions, with their taps and the last few rows.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/ops/causal_conv.h"

namespace mbench::cpu {

// Channels that one thread takes along the whole sequence: their rows and taps stay in the first-level cache.
inline constexpr std::int64_t kChannels = 64;

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
inline void convolve(const ConvTaps& taps, std::int64_t count, ConvWindow& x, std::int64_t t, std::int64_t n,
                     float* sum) {
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

// Sums of one tile for the gradients of weights: [taps + 1][kChannels], the bias's last.
struct TileSums {
  std::vector<float> sums;
  explicit TileSums(std::int64_t taps) : sums(static_cast<std::size_t>((taps + 1) * kChannels), 0.0f) {}
  float* at(std::int64_t k) { return sums.data() + k * kChannels; }
};

// Adds what position t gives to the gradients of x at t and before, which `dx` collects.
inline void spread_back(const ConvTaps& taps, std::int64_t count, ConvWindow& x, ConvWindow& dx, std::int64_t t,
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

// Adds to `count` elements of a gradient, `step` elements from one to the next, from element `at` on.
inline void add_to_weights(const Tensor& to, std::int64_t at, std::int64_t step, std::int64_t count,
                           const float* sums) {
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

}  // namespace mbench::cpu
