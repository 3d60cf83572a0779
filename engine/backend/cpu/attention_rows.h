// The query rows of a block of attention, and its GEMMs over the keys that these rows see, and few others. Scores are addressed by key: the
// score of row r with key k is element r * ld + k.
#pragma once
#include <span>

#include "engine/backend/cpu/block_gemm.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {

class BlockRows {
 public:
  static constexpr std::int64_t kMost = 72;

  // Rows that a GEMM takes together, and the keys [first, end) that any of them sees.
  struct Tile {
    std::int64_t row, rows, first, end;
  };

  // `count` queries from q0 on.
  BlockRows(const ops::AttentionShape& s, std::int64_t q0, std::int64_t count) : rows(count) {
    std::int64_t document = s.document_of(q0);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (s.documents && s.documents->end(document) <= s.map.q0 + q0 + r) ++document;
      const ops::AttentionShape::Keys keys = s.keys_of(q0 + r, document);
      first_key[r] = keys.first, end_key[r] = keys.end;
      if (!joins_tile(first_key[r])) tiles_[count_++] = {r, 0, first_key[r], end_key[r]};
      Tile& tile = tiles_[count_ - 1];
      ++tile.rows, tile.end = end_key[r];
    }
    first = first_key[0] / kVector * kVector, end = end_key[rows - 1];
  }
  std::span<const Tile> tiles() const { return {tiles_, static_cast<std::size_t>(count_)}; }

  std::int64_t rows;
  std::int64_t first_key[kMost], end_key[kMost];  // of each row; neither falls from row to row
  std::int64_t first, end;                        // of all rows; `first` is where a vector begins

 private:
  // In the next document keys begin far behind those of the rows before.
  bool joins_tile(std::int64_t key) const {
    if (count_ == 0) return false;
    const Tile& last = tiles_[count_ - 1];
    return last.rows < kTileRows && key <= last.first + kTileRows;
  }

  Tile tiles_[kMost];
  std::int64_t count_ = 0;
};

// scores = q [rows, width] times the transposed panels of keys. Of each tile's keys whole vectors are computed.
// between() is called between GEMMs.
template <class F>
void score_block(const BlockRows& block, std::int64_t ld, std::int64_t width, const float* q, const float* panels,
                 float* scores, F&& between) {
  for (std::int64_t p = block.first / kPanel * kPanel; p < block.end; p += kPanel)
    for (const BlockRows::Tile& tile : block.tiles()) {
      const std::int64_t begin = std::max(p, tile.first / kVector * kVector),
                         stop = std::min(p + kPanel, round_up(tile.end, kVector));
      if (begin >= stop) continue;
      between();
      block_gemm(tile.rows, stop - begin, width, {q + tile.row * width, width, 1}, panels + p * width + (begin - p),
                 kPanel, scores + tile.row * ld + begin, ld, false);
    }
}

// out [rows, width] = each row's sum over its tile's keys of weights times `values` [keys, width]. between() is called between
// GEMMs.
template <class F>
void weigh_values(const BlockRows& block, std::int64_t ld, std::int64_t width, const float* weights,
                  const float* values, float* out, F&& between) {
  for (std::int64_t j = 0; j < width; j += kPanel) {
    const std::int64_t cols = std::min(kPanel, width - j);
    for (std::int64_t k = block.first; k < block.end; k += kGemmDepth)
      for (const BlockRows::Tile& tile : block.tiles()) {
        const std::int64_t begin = std::max(k, tile.first), stop = std::min(k + kGemmDepth, tile.end);
        if (begin >= stop) continue;
        between();
        block_gemm(tile.rows, cols, stop - begin, {weights + tile.row * ld + begin, ld, 1}, values + begin * width + j,
                   width, out + tile.row * width + j, width, begin > tile.first);
      }
  }
  for (const BlockRows::Tile& tile : block.tiles())
    if (tile.first == tile.end) std::fill(out + tile.row * width, out + (tile.row + tile.rows) * width, 0.0f);
}

// sums [keys, width] += for each key the sum of weights times `rows` [rows, width], over the rows that see one of kTileRows keys.
inline void add_rows_by_key(const BlockRows& block, std::int64_t ld, std::int64_t width, const float* weights,
                            const float* rows, float* sums) {
  for (std::int64_t j = 0; j < width; j += kPanel) {
    const std::int64_t cols = std::min(kPanel, width - j);
    std::int64_t from = 0, to = 0;
    for (std::int64_t k = block.first; k < block.end; k += kTileRows) {
      const std::int64_t keys = std::min<std::int64_t>(kTileRows, block.end - k);
      while (from < block.rows && block.end_key[from] <= k) ++from;
      while (to < block.rows && block.first_key[to] < k + keys) ++to;
      if (from < to)
        block_gemm(keys, cols, to - from, {weights + from * ld + k, 1, ld}, rows + from * width + j, width,
                   sums + k * width + j, width, true);
    }
  }
}

// Sets to zero what those GEMMs read of row `r` and the row does not see.
inline void clear_hidden(const BlockRows& block, const BlockRows::Tile& tile, std::int64_t r, float* row) {
  const std::int64_t first = block.first_key[r], end = block.end_key[r], beyond = kTileRows - 1;
  std::fill(row + std::max(block.first, std::min(tile.first, first - beyond)), row + first, 0.0f);
  std::fill(row + end, row + std::min(block.end, std::max(tile.end, end + beyond)), 0.0f);
}

}  // namespace mbench::cpu
