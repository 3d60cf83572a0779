// Softmax of one row of attention scores, in place or not; for the eager and the fused op.
#pragma once
#include "engine/backend/cpu/float_vector.h"

namespace mbench::cpu {

// The keys hidden from a row: keep[k] == 0 or hidden[k] != 0; either may be null.
struct KeyMask {
  const std::uint8_t* keep = nullptr;
  const std::uint8_t* hidden = nullptr;
  explicit operator bool() const { return keep != nullptr || hidden != nullptr; }
  // Of the keys from `first` on.
  KeyMask from(std::int64_t first) const {
    return {keep == nullptr ? nullptr : keep + first, hidden == nullptr ? nullptr : hidden + first};
  }
  bool hides(std::int64_t k) const {
    return (keep != nullptr && keep[k] == 0) || (hidden != nullptr && hidden[k] != 0);
  }
};

// Hidden scores become -infinity.
inline void hide_keys(float* scores, std::int64_t n, const KeyMask& mask) {
  if (mask.keep != nullptr) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) scores[k] = mask.keep[k] == 0 ? -kInf : scores[k];
  }
  if (mask.hidden != nullptr) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) scores[k] = mask.hidden[k] != 0 ? -kInf : scores[k];
  }
}

// probs = softmax(scale * scores) over n keys. Returns the log of the sum of exp(scale * score): -infinity where all keys are hidden (probs
// are then zero). NaN scores make the row NaN. probs may be scores.
inline float softmax_row(const float* scores, float* probs, std::int64_t n, float scale, const KeyMask& mask) {
#pragma omp simd
  for (std::int64_t k = 0; k < n; ++k) probs[k] = scale * scores[k];
  if (mask) hide_keys(probs, n, mask);
  const float top = max_of(n, [probs](std::int64_t k) { return probs[k]; });
  if (top == -kInf) {  // nothing but hidden keys, NaN and -infinity
    float lse = -kInf;
    for (std::int64_t k = 0; k < n; ++k) {
      const bool hidden = mask.hides(k);
      probs[k] = hidden ? 0.0f : kNan;
      if (!hidden) lse = kNan;
    }
    return lse;
  }
  const float sum = sum_of(n, [probs, top](std::int64_t k) { return probs[k] = exp_f32(probs[k] - top); });
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (std::int64_t k = 0; k < n; ++k) probs[k] *= inverse;
  return top + std::log(sum);
}

// The largest of n scores, -infinity for none. Up to a whole vector behind them become -infinity: the row has room for it.
inline float largest_in(float* row, std::int64_t n) {
  const std::int64_t end = round_up(n, kVector);
  std::fill(row + n, row + end, -kInf);
  FloatVector tops[2] = {all(-kInf), all(-kInf)};
  for_vectors(end, [&](std::int64_t i, int part) { tops[part] = larger(load_vector(row + i), tops[part]); });
  return largest_of(larger(tops[0], tops[1]));
}

// After largest_in(): each score becomes exp(scale * score - top), where scale * score is at most top. Returns their sum.
inline float exp_row(float* row, std::int64_t n, float scale, float top) {
  FloatVector sums[2] = {all(0), all(0)};
  for_vectors(n, [&](std::int64_t i, int part) {
    const FloatVector e = exp_of(scale * load_vector(row + i) - top);
    store_vector(e, row + i);
    sums[part] += e;
  });
  return sum_of(sums[0] + sums[1]);
}

}  // namespace mbench::cpu
