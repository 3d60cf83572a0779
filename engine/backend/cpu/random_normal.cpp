#include "engine/ops/random_normal.h"

#include <algorithm>

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/philox_block.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// Elements are always computed in whole groups that start at multiples of kGroup, by the same instructions,
// so a slice of a tensor has the same bits as the whole.
constexpr std::int64_t kGroup = 256;

// ln((w + 1) / 2^32) with full relative precision at both ends.
inline float log_uniform(std::uint32_t w) {
  const float up = static_cast<float>(w) + 1.0f;                        // within rounding of w + 1
  const float down = static_cast<float>(~w) * 2.3283064365386963e-10f;  // 1 - u
  const float near_one = log1p_reduced(-(down > 0.29f ? 0.0f : down));  // 1 - 0.29 > 1 / sqrt(2)
  const float elsewhere = log_f32(up * 2.3283064365386963e-10f);
  return down > 0.29f ? elsewhere : near_one;
}

void normal_group(const PhiloxKeys& keys, std::uint64_t group, float stddev, float mean, float* out) {
  std::uint32_t words[kGroup];
  const std::uint64_t block = group * (kGroup / 4);
  for (std::int64_t i = 0; i < kGroup; i += kWords)
    philox_blocks(keys, block + static_cast<std::uint64_t>(i / 4), words + i);
#pragma omp simd
  for (std::int64_t i = 0; i < kGroup / 2; ++i) {
    const float r = stddev * std::sqrt(-2.0f * log_uniform(words[2 * i]));
    float s, c;
    sin_cos_turn(words[2 * i + 1], s, c);
    out[2 * i] = mean + r * c;
    out[2 * i + 1] = mean + r * s;
  }
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::RandomNormal& op) {
  const std::int64_t rows = op.x.shape().rows(), cols = op.x.shape().cols();
  if (rows == 0 || cols == 0) return;
  // Whole rows of the global tensor lie one after the other: one long run; otherwise one run for each row.
  const bool whole = cols == op.global_cols;
  const std::int64_t runs = whole ? 1 : rows, length = whole ? rows * cols : cols;
  const std::int64_t groups = (length + kGroup - 1) / kGroup + 1;  // a run may start inside a group
  float* x = op.x.as<float>();
  const PhiloxKeys keys(op.key);
#pragma omp parallel for schedule(static)
  for (std::int64_t item = 0; item < runs * groups; ++item) {
    const std::int64_t run = item / groups;
    const std::int64_t first = (op.row0 + run) * op.global_cols + op.col0;  // global element
    const std::int64_t group = first / kGroup + item % groups;
    const std::int64_t begin = std::max(first, group * kGroup), end = std::min(first + length, (group + 1) * kGroup);
    if (begin >= end) continue;
    float values[kGroup];
    normal_group(keys, static_cast<std::uint64_t>(group), op.stddev, op.mean, values);
    std::copy(values + (begin - group * kGroup), values + (end - group * kGroup), x + run * length + begin - first);
  }
}

}  // namespace mbench::cpu
