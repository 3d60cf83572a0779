// Which positions of the sequence a context-parallel rank has.
//
// Zig-zag: of 2 * ranks equal chunks, rank r has chunk r and behind it chunk 2 * ranks - 1 - r. So causal attention has as many visible
// pairs on every rank (Megatron-Core). Brandon et al. 2023, "Striped Attention", explain why equal ranges do not. Without zig-zag, the
// ranks have equal ranges in their order.
#pragma once
#include <cstdint>

namespace mbench {

class SequenceShare {
 public:
  SequenceShare(std::int64_t seq, int ranks, int rank, bool zigzag)
      : ranks_(ranks), rank_(rank), chunks_(zigzag && ranks > 1 ? 2 : 1), length_(seq / (ranks * chunks_)) {}

  int ranks() const { return ranks_; }
  int chunks() const { return chunks_; }           // of a rank
  std::int64_t length() const { return length_; }  // of a chunk
  std::int64_t rows() const { return chunks_ * length_; }
  // The place in the sequence of the i-th chunk of this rank, or of a given rank, counted in chunks.
  std::int64_t chunk(int i) const { return chunk(rank_, i); }
  std::int64_t chunk(int rank, int i) const { return i == 0 ? rank : 2 * ranks_ - 1 - rank; }
  // The position in the sequence of row `row` of this rank.
  std::int64_t position(std::int64_t row) const {
    return chunk(static_cast<int>(row / length_)) * length_ + row % length_;
  }

  bool operator==(const SequenceShare&) const = default;

 private:
  int ranks_, rank_, chunks_;
  std::int64_t length_;
};

}  // namespace mbench
