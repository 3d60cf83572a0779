// Where the rows of the experts come from: a stable counting sort of an MoE's (token, slot) pairs by the expert that
// they chose. Pair (token, slot) has the number token * k + slot.
//
// Without a capacity an expert has as many rows as chose it, or the next multiple of `multiple`: then GEMMs have few
// shapes. Its rows follow those of the expert before it: offsets follow the data, and the tensors are as long as their
// upper bound. With a capacity every expert has that many rows, and offsets are known beforehand. Pairs beyond an
// expert's capacity are dropped, the last ones first, and rows that nobody chose are padding.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct DispatchPlan {
  static constexpr std::string_view name = "dispatch_plan";
  Tensor experts;             // [tokens, k] i64; a pair outside [first, first + number()) has no row here
  Tensor rows;                // [tokens, k] i64: each pair's row; -1 where it has none
  Tensor pairs;               // [rows] i64: each row's pair; -1 where it is padding
  Tensor counts;              // [experts] i64: the pairs that chose each expert, dropped ones among them
  Tensor offsets;             // [experts + 1] i64: the first row of each expert; the last is the end of the rows in use
  std::int64_t capacity = 0;  // rows of an expert; 0: as many as chose it
  std::int64_t multiple = 1;  // without a capacity: rows of an expert are padded to a multiple of it
  std::int64_t first = 0;     // the first expert here, among all experts

  std::int64_t number() const { return counts.numel(); }  // of experts
  // The most rows that `pairs` must hold, whatever the tokens choose.
  std::int64_t most_rows() const {
    return capacity > 0 ? number() * capacity : experts.numel() + number() * (multiple - 1);
  }
  void check() const {
    need_dtype(name, "experts", experts, DType::i64);
    need_same(name, "rows", rows, experts);
    need_dtype(name, "counts", counts, DType::i64);
    need_shape(name, "counts", counts, {counts.numel()});
    need_shape(name, "offsets", offsets, {number() + 1});
    need_dtype(name, "offsets", offsets, DType::i64);
    need_dtype(name, "pairs", pairs, DType::i64);
    mbench::check(number() > 0, name, "experts, got none, need at least 1");
    mbench::check(capacity >= 0, name, "capacity, got {}, need at least 0", capacity);
    mbench::check(first >= 0, name, "first expert, got {}, need at least 0", first);
    mbench::check(multiple >= 1 && (capacity == 0 || multiple == 1), name,
                  "multiple, got {} with capacity {}, need at least 1, and 1 with a capacity", multiple, capacity);
    mbench::check(pairs.shape().rank() == 1 && pairs.numel() >= most_rows(), name,
                  "shape of pairs, got {}, need one dim of at least {}", pairs.shape(), most_rows());
  }
  Cost cost() const {
    return {0, 2 * bytes_of(experts) + bytes_of(rows) + bytes_of(pairs) + bytes_of(counts) + bytes_of(offsets)};
  }
};

}  // namespace mbench::ops
