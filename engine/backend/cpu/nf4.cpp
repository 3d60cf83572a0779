#include "engine/ops/nf4.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

// The value of both halves of a byte.
struct PairsOfValues {
  float first[256], second[256];
};
constexpr PairsOfValues pairs_of_values() {
  PairsOfValues pairs{};
  for (int byte = 0; byte < 256; ++byte)
    pairs.first[byte] = ops::kNf4.values[byte >> 4], pairs.second[byte] = ops::kNf4.values[byte & 15];
  return pairs;
}
constexpr PairsOfValues kPairs = pairs_of_values();

// Gives `keep` each value of a block by its index, less the mean and over the largest of them. The largest is returned.
template <class Keep>
float normalise(const float* x, std::int64_t n, float mean, Keep&& keep) {
  float most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i] - mean));
  const float multiplier = ops::nf4_multiplier(most);
  for (std::int64_t i = 0; i < n; ++i) keep(i, (x[i] - mean) * multiplier);
  return most;
}

}  // namespace

template <>
void compute(CpuOps&, const ops::QuantiseNf4& op) {
  const std::int64_t all = op.x.numel();
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(op.scales.numel(), ops::kNf4Block, [&](std::int64_t block) {
      const std::int64_t begin = block * ops::kNf4Block, n = std::min(ops::kNf4Block, all - begin);
      float buffer[ops::kNf4Block];
      const float* x = load(static_cast<const T*>(op.x.as<T>()) + begin, buffer, n);
      auto* codes = op.codes.as<std::uint8_t>() + begin / 2;
      op.scales.as<float>()[block] = normalise(x, n, 0, [&](std::int64_t i, float value) {
        const int code = ops::nf4_code(ops::kNf4.values, value);
        codes[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? code << 4 : codes[i / 2] | code);
      });
    });
  });
}

template <>
void compute(CpuOps&, const ops::DequantiseNf4& op) {
  const std::int64_t all = op.y.numel();
  with_type(op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(op.scales.numel(), ops::kNf4Block, [&](std::int64_t block) {
      const std::int64_t begin = block * ops::kNf4Block, n = std::min(ops::kNf4Block, all - begin);
      float buffer[ops::kNf4Block];
      float* y = target(op.y.as<T>() + begin, buffer);
      const float scale = op.scales.as<float>()[block];
      const auto* codes = op.codes.as<std::uint8_t>() + begin / 2;
      for (std::int64_t i = 0; i + 1 < n; i += 2) {
        y[i] = kPairs.first[codes[i / 2]] * scale;
        y[i + 1] = kPairs.second[codes[i / 2]] * scale;
      }
      if (n % 2 != 0) y[n - 1] = kPairs.first[codes[n / 2]] * scale;
      store(y, op.y.as<T>() + begin, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::QuantiseScales& op) {
  const std::int64_t all = op.scales.numel();
  const float* scales = op.scales.as<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < all; ++i) sum += static_cast<double>(scales[i]);
  const auto mean = static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(all, 1)));
  op.mean.as<float>()[0] = mean;
  parallel_rows(op.most.numel(), ops::kScalesBlock, [&](std::int64_t block) {
    const std::int64_t begin = block * ops::kScalesBlock, n = std::min(ops::kScalesBlock, all - begin);
    auto* codes = op.codes.as<std::uint8_t>() + begin;
    op.most.as<float>()[block] = normalise(scales + begin, n, mean, [&](std::int64_t i, float value) {
      codes[i] = static_cast<std::uint8_t>(ops::nearest_code(ops::kSignedMap.values, value));
    });
  });
}

template <>
void compute(CpuOps&, const ops::DequantiseScales& op) {
  const float *most = op.most.as<float>(), mean = op.mean.as<float>()[0];
  const auto* codes = op.codes.as<std::uint8_t>();
  float* scales = op.scales.as<float>();
  parallel_tiles(op.scales.numel(), [&](std::int64_t begin, std::int64_t n) {
    for (std::int64_t i = begin; i < begin + n; ++i)
      scales[i] = ops::kSignedMap.values[codes[i]] * most[op.block_of(i)] + mean;
  });
}

}  // namespace mbench::cpu
