// One chunk of a scan on the CPU: its operands as f32 in layouts that block_gemm can stream, padded with zeros to whole vectors.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/backend/cpu/block_gemm.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/flush_denormals.h"
#include "engine/backend/cpu/vector_math.h"
#include "engine/device/tensor.h"

namespace mbench::cpu {

inline std::int64_t padded(std::int64_t n) {
  return round_up(n, kVector);
}

// Rows of a chunk that a GEMM over the positions before them takes together.
inline constexpr std::int64_t kScanRows = 24;

// A thread's buffers, cut off one block of floats.
class ScanRoom {
 public:
  explicit ScanRoom(float* all) : next_(all) {}
  float* take(std::int64_t rows, std::int64_t cols) {
    float* part = next_;
    next_ += rows * cols;
    return part;
  }

 private:
  float* next_;
};

// f(i) for every piece of work of a scan, each on one thread.
template <class F>
void for_each_piece(std::int64_t count, F&& f) {
#pragma omp parallel
  {
    const FlushDenormals flush;
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < count; ++i) f(i);
  }
}

// Rows of `cols` elements, one every `step` elements, as rows of padded(cols) floats.
template <class T>
void load_block(const T* from, std::int64_t step, std::int64_t rows, std::int64_t cols, float* to) {
  const std::int64_t wide = padded(cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    to_floats(from + r * step, to + r * wide, cols);
    if (cols < wide) std::fill(to + r * wide + cols, to + (r + 1) * wide, 0.0f);
  }
}

template <class T>
void store_block(const float* from, std::int64_t rows, std::int64_t cols, T* to, std::int64_t step) {
  const std::int64_t wide = padded(cols);
  for (std::int64_t r = 0; r < rows; ++r) from_floats(from + r * wide, to + r * step, cols);
}

// [rows, cols] by rows of `ld` to [cols, rows] by rows of `to_ld`.
inline void turn_block(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t cols, float* to,
                       std::int64_t to_ld) {
  for (std::int64_t r0 = 0; r0 < rows; r0 += kVector)
    for (std::int64_t c0 = 0; c0 < cols; c0 += kVector) {
      if (r0 + kVector <= rows && c0 + kVector <= cols) {
        transpose_tile(from + r0 * ld + c0, ld, to + c0 * to_ld + r0, to_ld);
        continue;
      }
      for (std::int64_t c = c0; c < std::min(cols, c0 + kVector); ++c)
        for (std::int64_t r = r0; r < std::min(rows, r0 + kVector); ++r) to[c * to_ld + r] = from[r * ld + c];
    }
}

// [rows, padded(cols)] to [cols, padded(rows)].
inline void transpose_block(const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  const std::int64_t high = padded(rows);
  if (rows < high)
    for (std::int64_t c = 0; c < cols; ++c) std::fill(to + c * high + rows, to + (c + 1) * high, 0.0f);
  turn_block(from, padded(cols), rows, cols, to, high);
}

// Like load_block() and transpose_block() after it, [rows, cols] to [cols, padded(rows)], without the block between.
template <class T>
void load_turned(const T* from, std::int64_t step, std::int64_t rows, std::int64_t cols, float* to) {
  const std::int64_t high = padded(rows);
  float tile[kVector * kVector], turned[kVector * kVector];
  for (std::int64_t r0 = 0; r0 < rows; r0 += kVector)
    for (std::int64_t c0 = 0; c0 < cols; c0 += kVector) {
      const std::int64_t height = std::min(kVector, rows - r0), width = std::min(kVector, cols - c0);
      if (height < kVector || width < kVector) std::fill(tile, tile + kVector * kVector, 0.0f);
      for (std::int64_t r = 0; r < height; ++r) to_floats(from + (r0 + r) * step + c0, tile + r * kVector, width);
      transpose_tile(tile, kVector, turned, kVector);
      for (std::int64_t c = 0; c < width; ++c)
        std::copy(turned + c * kVector, turned + (c + 1) * kVector, to + (c0 + c) * high + r0);
    }
}

// C[m, padded(n)] = (or +=) A B, for A [m, k] by rows of `lda`, or transposed.
inline void scan_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const StridedBlock& a, const float* b, float* c,
                      bool accumulate) {
  block_gemm(m, padded(n), k, a, b, padded(n), c, padded(n), accumulate);
}

// Scores of positions with those up to themselves: C[t, s] = A[t] . B[s] for s <= t, by blocks of rows; beyond, anything.
// A: [length, k] by rows of `lda`; b: [k, padded(length)].
inline void causal_scores(std::int64_t length, std::int64_t k, const float* a, std::int64_t lda, const float* b,
                          float* c) {
  const std::int64_t wide = padded(length);
  for (std::int64_t t = 0; t < length; t += kScanRows) {
    const std::int64_t rows = std::min(kScanRows, length - t);
    block_gemm(rows, padded(t + rows), k, {a + t * lda, lda, 1}, b, wide, c + t * wide, wide, false);
  }
}

// C[t] (+)= sum over s <= t of M[t, s] B[s]; M has zeros above its diagonal.
inline void causal_sums(std::int64_t length, std::int64_t n, const float* m, const float* b, float* c,
                        bool accumulate) {
  const std::int64_t wide = padded(length), cols = padded(n);
  for (std::int64_t t = 0; t < length; t += kScanRows) {
    const std::int64_t rows = std::min(kScanRows, length - t);
    block_gemm(rows, cols, t + rows, {m + t * wide, wide, 1}, b, cols, c + t * cols, cols, accumulate);
  }
}

// C[s] (+)= sum over t >= s of M[t, s] B[t].
inline void causal_sums_back(std::int64_t length, std::int64_t n, const float* m, const float* b, float* c,
                             bool accumulate) {
  const std::int64_t wide = padded(length), cols = padded(n);
  for (std::int64_t s = 0; s < length; s += kScanRows) {
    const std::int64_t rows = std::min(kScanRows, length - s);
    block_gemm(rows, cols, length - s, {m + s * wide + s, 1, wide}, b + s * cols, cols, c + s * cols, cols, accumulate);
  }
}

// Every row times its own factor.
inline void scale_block(std::int64_t rows, std::int64_t n, const float* factors, const float* from, float* to) {
  const std::int64_t wide = padded(n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float factor = factors[r], *x = from + r * wide;
    float* y = to + r * wide;
#pragma omp simd
    for (std::int64_t i = 0; i < wide; ++i) y[i] = factor * x[i];
  }
}

inline float row_dot(const float* a, const float* b, std::int64_t n) {
  return sum_of(padded(n), [=](std::int64_t i) { return a[i] * b[i]; });
}

// The value of an element of a vector of weights.
inline float element_of(const Tensor& t, std::int64_t i) {
  float value = 0;
  with_type(t.dtype(),
            [&](auto type) { to_floats(static_cast<const decltype(type)*>(t.as<decltype(type)>()) + i, &value, 1); });
  return value;
}

// Adds sums over `parts` of [count, each] to vectors of weights: vector j of element i is at partial[part][i][j].
inline void add_partials(const float* partial, std::int64_t parts, std::int64_t count, std::int64_t each,
                         const std::vector<Tensor>& to) {
  for (std::size_t j = 0; j < to.size(); ++j) {
    if (!to[j]) continue;
    with_type(to[j].dtype(), [&](auto type) {
      using T = decltype(type);
      for (std::int64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p < parts; ++p)
          sum += static_cast<double>(partial[(p * count + i) * each + static_cast<std::int64_t>(j)]);
        float value = 0;
        to_floats(static_cast<const T*>(to[j].template as<T>()) + i, &value, 1);
        value += static_cast<float>(sum);
        from_floats(&value, to[j].template as<T>() + i, 1);
      }
    });
  }
}

}  // namespace mbench::cpu
