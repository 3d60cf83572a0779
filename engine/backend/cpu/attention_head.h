// One head of fused attention on the CPU: its operands as f32 in layouts that block_gemm can stream, and its blocks of query rows. Also how
// threads share heads and blocks.
#pragma once
#include <omp.h>

#include "engine/backend/cpu/attention_rows.h"
#include "engine/backend/cpu/block_gemm.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/dropout_rows.h"
#include "engine/backend/cpu/softmax_rows.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {

struct HeadSizes {
  explicit HeadSizes(const ops::AttentionShape& s)
      : seq(s.seq),
        width(round_up(s.head_dim, kVector)),
        v_width(round_up(s.v_dim(), kVector)),
        keys(round_up(s.seq, kPanel)),
        block(rows_of_blocks(s)),
        blocks((s.seq + block - 1) / block),
        // One vector more than a multiple of the panel: a power of two would map a column to a single cache set.
        ld(round_up(most_keys(s), kPanel) + kVector) {}
  std::int64_t seq;
  std::int64_t width;    // of queries and keys, padded
  std::int64_t v_width;  // of values and outputs, padded
  std::int64_t keys;     // seq padded
  std::int64_t block;    // query rows of a block
  std::int64_t blocks;
  std::int64_t ld;  // of a block of scores: of the keys that its rows see
  BlockRows rows_of(const ops::AttentionShape& s, std::int64_t b) const {
    return {s, b * block, std::min(block, seq - b * block)};
  }
  std::int64_t widest() const { return std::max(width, v_width); }
  std::int64_t scores() const { return block * ld; }

 private:
  // A block of scores fits the second-level cache together with K and V.
  static std::int64_t rows_of_blocks(const ops::AttentionShape& s) {
    const auto mean = static_cast<std::int64_t>(s.visible_pairs() / std::max(1.0, static_cast<double>(s.seq)));
    const std::int64_t seen = std::clamp<std::int64_t>(2 * mean, 1, std::max<std::int64_t>(1, s.seq));
    return std::clamp<std::int64_t>(72 * 1024 / seen / kTileRows * kTileRows, 24, BlockRows::kMost);
  }
  std::int64_t most_keys(const ops::AttentionShape& s) const {
    std::int64_t most = 0;
    for (std::int64_t q = 0; q < seq; q += block)
      most = std::max(most, s.end_key(std::min(q + block, seq) - 1) - s.first_key(q) / kVector * kVector);
    return most;
  }
};

// How threads share the work. If there are enough heads (forward) or groups of heads (backward), each thread gets whole ones. Otherwise all
// threads share the blocks of each.
struct Sharing {
  explicit Sharing(std::int64_t heads_or_groups) {
    const int threads = omp_get_max_threads();
    heads = heads_or_groups >= threads ? threads : 1;
    blocks = heads_or_groups >= threads ? 1 : threads;
  }
  int heads;   // worked on at the same time
  int blocks;  // of one of them, at the same time
};

// Where head `index` begins, counted over samples and their heads. query_head() is for queries and outputs: the heads of a group are
// adjacent. key_head() is for keys and values, which the group shares.
inline std::int64_t query_head(const ops::AttentionShape& s, const ops::Matrix& m, std::int64_t index) {
  return m.offset + index / s.group * m.batch_stride + index % s.group * m.cols;
}
inline std::int64_t key_head(const ops::AttentionShape& s, const ops::Matrix& m, std::int64_t index) {
  return m.offset + index / s.group * m.batch_stride;
}

// Rows [first, first + rows) of the head that begins at element `head`, padded to `width`.
template <class T>
void load_rows(const ops::Matrix& m, std::int64_t head, std::int64_t first, std::int64_t rows, std::int64_t width,
               float* to) {
  const T* from = m.data.as<T>() + head + first * m.ld;
  for (std::int64_t r = 0; r < rows; ++r) {
    to_floats(from + r * m.ld, to + r * width, m.cols);
    if (m.cols < width) std::fill(to + r * width + m.cols, to + (r + 1) * width, 0.0f);
  }
}

// Rows of heads that the next block of queries loads. They are asked for few at a time while a block computes: memory is slower than the loop
// that loads them, and answers only some requests at once.
template <class T>
class NextRows {
 public:
  // Of each head `count` rows from `first` on, or none.
  NextRows(bool any, std::int64_t first, std::int64_t count) : first_(first), end_(any ? first + count : first) {}
  void add(const ops::Matrix& m, std::int64_t head) { add_from(first_, m, head); }
  // Without the rows before `loaded`.
  void add_from(std::int64_t loaded, const ops::Matrix& m, std::int64_t head) {
    const std::int64_t first = std::max(first_, loaded), end = std::min(end_, m.rows);
    if (first < end) parts_[count_++] = {m.data.as<T>() + head + first * m.ld, m.ld, m.cols, end - first};
  }
  void ask(std::int64_t rows) {
    for (; rows > 0 && at_ < count_; --rows) {
      Part& part = parts_[at_];
      prefetch(part.row, part.cols);
      part.row += part.step;
      if (--part.rows == 0) ++at_;
    }
  }

 private:
  struct Part {
    const T* row;
    std::int64_t step, cols, rows;
  };
  Part parts_[5];
  std::int64_t first_, end_;
  int count_ = 0, at_ = 0;
};

template <class T>
void store_rows(const float* from, const ops::Matrix& m, std::int64_t head, std::int64_t first, std::int64_t rows,
                std::int64_t width) {
  T* to = m.data.as<T>() + head + first * m.ld;
  for (std::int64_t r = 0; r < rows; ++r) from_floats(from + r * width, to + r * m.ld, m.cols);
}

// A head transposed, in panels of kPanel keys: element (key, c) is at [key / kPanel][c][key % kPanel]. Keys beyond the sequence are zero.
// `rows` is scratch of kPanel * width floats.
template <class T>
void load_panel(const ops::Matrix& m, std::int64_t head, std::int64_t panel, std::int64_t width, float* rows,
                float* to) {
  const std::int64_t first = panel * kPanel, count = std::min(kPanel, m.rows - first);
  load_rows<T>(m, head, first, count, width, rows);
  if (count < kPanel) std::fill(rows + count * width, rows + kPanel * width, 0.0f);
  float* out = to + panel * kPanel * width;
  for (std::int64_t c = 0; c < width; c += kVector)
    for (std::int64_t k = 0; k < kPanel; k += kVector)
      transpose_tile(rows + k * width + c, width, out + c * kPanel + k, kPanel);
}

inline KeyMask keys_of(const ops::AttentionShape& s, std::int64_t index) {
  KeyMask mask;
  if (s.keep) mask.keep = s.keep.as<std::uint8_t>() + index / s.heads * s.seq;
  return mask;
}

// Whether scores are more than scaled dot products.
inline bool bends_scores(const ops::AttentionShape& s) {
  return s.softcap > 0 || s.alibi;
}

// Turns the dot products of head `index`, query q with keys [first, end) into scores: scaled, capped, and lowered by distance. If `slopes`
// is not null, it gets the derivative of the capped score by the scaled one.
inline void make_scores(const ops::AttentionShape& s, std::int64_t index, std::int64_t q, std::int64_t first,
                        std::int64_t end, float* row, float* slopes) {
  if (s.softcap > 0) {
    const float inverse = s.scale / s.softcap;
#pragma omp simd
    for (std::int64_t k = first; k < end; ++k) {
      const float t = tanh_f32(row[k] * inverse);
      row[k] = s.softcap * t;
      if (slopes != nullptr) slopes[k] = 1.0f - t * t;
    }
  } else {
#pragma omp simd
    for (std::int64_t k = first; k < end; ++k) row[k] *= s.scale;
  }
  if (!s.alibi) return;
  const float slope = ops::alibi_slope(s.map.head0 + index % s.heads, s.map.heads);
  const std::int64_t at = q + s.ahead();
#pragma omp simd
  for (std::int64_t k = first; k < end; ++k) row[k] -= slope * static_cast<float>(at - k);
}

// The global element of the dropout word of (head `index`, query q, key 0).
inline std::uint64_t first_word(const ops::AttentionShape& s, std::int64_t index, std::int64_t q) {
  const Shape probs{s.batch, s.heads, s.seq, s.seq};
  return first_element(s.map, probs, index * s.seq + q);
}

inline void scale_row(std::int64_t n, float factor, float* row) {
#pragma omp simd
  for (std::int64_t k = 0; k < n; ++k) row[k] *= factor;
}

// Applies dropout to a row of probabilities.
inline void drop_row(const ops::AttentionShape& s, std::int64_t index, std::int64_t q, std::int64_t first,
                     std::int64_t n, float* row) {
  for (std::int64_t k = first; k < n; k += kTile) {
    const std::int64_t count = std::min(kTile, n - k);
    float factor[kTile];
    draw_factors(s.dropout, first_word(s, index, q) + static_cast<std::uint64_t>(k), count, factor);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) row[k + i] *= factor[i];
  }
}

// Restores the probabilities of query row q: as kept, or from its log-sum-exp and its dot products with keys [first, n), which are in
// `row`. What is behind them up to a whole vector becomes anything. `slopes` is as in make_scores().
template <class TP>
void restore_probs(const ops::AttentionGrad& op, std::int64_t index, std::int64_t q, std::int64_t first, std::int64_t n,
                   const KeyMask& mask, float* row, float* slopes) {
  const ops::AttentionShape& s = op.shape;
  if (op.probs) {
    to_floats(op.probs.as<TP>() + (index * s.seq + q) * s.seq + first, row + first, n - first);
    return;
  }
  const float lse = op.lse.as<float>()[index * s.seq + q];
  float scale = s.scale;
  if (bends_scores(s)) make_scores(s, index, q, first, n, row, slopes), scale = 1;
  for (std::int64_t k = first; k < n; k += kVector) store_vector(exp_of(scale * load_vector(row + k) - lse), row + k);
  if (mask.keep == nullptr) return;
#pragma omp simd
  for (std::int64_t k = first; k < n; ++k) row[k] = mask.keep[k] == 0 ? 0.0f : row[k];
}

// p: P -> P F; ds: dO V^T -> dS, over the visible keys [first, n) of query q. What is behind them up to a whole vector becomes anything.
inline void grad_row(const ops::AttentionShape& s, std::int64_t index, std::int64_t q, std::int64_t first,
                     std::int64_t n, float dot, float* p, float* ds, const float* slopes) {
  const float scale = s.scale;
  if (s.dropout.p <= 0)
    for (std::int64_t i = first; i < n; i += kVector)
      store_vector(scale * load_vector(p + i) * (load_vector(ds + i) - dot), ds + i);
  for (std::int64_t k = first; s.dropout.p > 0 && k < n; k += kTile) {
    const std::int64_t count = std::min(kTile, n - k);
    float factor[kTile];
    draw_factors(s.dropout, first_word(s, index, q) + static_cast<std::uint64_t>(k), count, factor);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      ds[k + i] = scale * p[k + i] * (ds[k + i] * factor[i] - dot);
      p[k + i] *= factor[i];
    }
  }
  if (s.softcap <= 0) return;
#pragma omp simd
  for (std::int64_t i = first; i < n; ++i) ds[i] *= slopes[i];
}

// f(T(), TP()) for the types of the operands and of the kept probabilities.
template <class Op, class F>
void with_attention_types(const Op& op, std::initializer_list<const ops::Matrix*> matrices, F&& f) {
  const DType type = op.q.data.dtype();
  for (const ops::Matrix* m : matrices)
    check(m->data.dtype() == type, op.name, "operands must have one dtype, got {} and {}", name_of(type),
          name_of(m->data.dtype()));
  with_type(type, [&](auto t) {
    with_type(op.probs ? op.probs.dtype() : DType::f32, [&](auto probs_type) { f(t, probs_type); });
  });
}

}  // namespace mbench::cpu
