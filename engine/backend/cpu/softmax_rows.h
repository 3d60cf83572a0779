// Softmax of one row of attention scores, in place or not; for the eager and the fused op.
#pragma once
#include "engine/backend/cpu/vector_math.h"

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

// exp(scale * score - top) of n keys in place, with top the largest of scale * score; scale > 0.
struct ExpRow {
  float lse;      // as of softmax_row()
  float inverse;  // of their sum: times this they are probabilities
};
inline ExpRow exp_row(float* row, std::int64_t n, float scale, const KeyMask& mask) {
  if (mask) return {softmax_row(row, row, n, scale, mask), 1.0f};
  const float top = scale * max_of(n, [row](std::int64_t k) { return row[k]; });
  if (top == -kInf) return {softmax_row(row, row, n, scale, mask), 1.0f};
  const float sum = sum_of(n, [row, scale, top](std::int64_t k) { return row[k] = exp_f32(scale * row[k] - top); });
  return {top + std::log(sum), 1.0f / sum};
}

}  // namespace mbench::cpu
