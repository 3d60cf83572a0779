// What the fused attention and its gradient share: the cut into blocks of query rows, views of one head as
// f32, and the scratch of a thread.
#pragma once
#include <cblas.h>
#include <omp.h>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/dropout_rows.h"
#include "engine/backend/cpu/softmax_rows.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {

// [rows, head_dim] of one head, in f32.
struct HeadView {
  float* data;
  std::int64_t ld;
  float* row(std::int64_t r) const { return data + r * ld; }
};

// C = alpha op(A) op(B) + beta C, row-major.
inline void head_gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                      const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                      float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda),
              b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

// A head of `m` as f32: itself, or converted into `buffer` ([seq, head_dim], contiguous).
template <class T>
HeadView head_of(const ops::AttentionShape& s, const ops::Matrix& m, std::int64_t index, float* buffer) {
  T* from = m.data.as<T>() + m.offset + index * m.batch_stride;
  if constexpr (std::is_same_v<T, float>) {
    return {from, m.ld};
  } else {
    parallel_rows(s.seq, s.head_dim,
                  [&](std::int64_t r) { to_floats(from + r * m.ld, buffer + r * s.head_dim, s.head_dim); });
    return {buffer, s.head_dim};
  }
}

// Where a head of an output is computed, and then moved to where it belongs.
template <class T>
HeadView output_of(const ops::AttentionShape& s, const ops::Matrix& m, std::int64_t index, float* buffer) {
  if constexpr (std::is_same_v<T, float>) return {m.data.as<T>() + m.offset + index * m.batch_stride, m.ld};
  return {buffer, s.head_dim};
}
template <class T>
void store_head(const ops::AttentionShape& s, const HeadView& view, const ops::Matrix& m,
                std::int64_t index) {
  if constexpr (!std::is_same_v<T, float>) {
    T* to = m.data.as<T>() + m.offset + index * m.batch_stride;
    parallel_rows(s.seq, s.head_dim,
                  [&](std::int64_t r) { from_floats(view.row(r), to + r * m.ld, s.head_dim); });
  }
}

// Query rows of a block: the scores of one stay in the second-level cache.
inline std::int64_t block_rows(const ops::AttentionShape& s) {
  constexpr std::int64_t scores = 128 * 1024;
  return std::clamp<std::int64_t>(scores / std::max<std::int64_t>(1, s.seq) / 16 * 16, 32, 128);
}

inline KeyMask keys_of(const ops::AttentionShape& s, std::int64_t index) {
  KeyMask mask;
  if (s.keep) mask.keep = s.keep.as<std::uint8_t>() + index / s.heads * s.seq;
  return mask;
}

// Global element of the dropout word of (head `index`, query q, key 0).
inline std::uint64_t first_word(const ops::AttentionShape& s, std::int64_t index, std::int64_t q) {
  const Shape probs{s.batch, s.heads, s.seq, s.seq};
  return first_element(s.map, probs, index * s.seq + q);
}

// Heads are shared out whole where there are enough; else one after the other, each by all threads.
inline bool share_heads(const ops::AttentionShape& s) {
  return omp_get_max_threads() > 1 && s.batches() >= omp_get_max_threads();
}

}  // namespace mbench::cpu
