// Rows of a table picked by ids: y[i] = table[ids[i] - first_row]. Where the id is outside the local rows of a
// vocabulary shard, y[i] is zero, or unchanged when accumulating.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Embedding {
  static constexpr std::string_view name = "embedding";
  Tensor ids;    // [...] i64
  Tensor table;  // [rows, n]
  Tensor y;      // [..., n] with as many rows as there are ids
  std::int64_t first_row = 0;
  bool accumulate = false;  // y += instead of y =
  void check() const {
    need_dtype(name, "ids", ids, DType::i64);
    need_float(name, "table", table);
    need_dtype(name, "y", y, table.dtype());
    mbench::check(y.shape().rows() == ids.numel() && y.shape().cols() == table.shape().cols(), name,
                  "shape of y, got {} for {} ids of width {}", y.shape(), ids.numel(), table.shape().cols());
  }
  Cost cost() const { return {accumulate ? static_cast<double>(y.numel()) : 0, 2 * bytes_of(y) + bytes_of(ids)}; }
};

struct EmbeddingGrad {  // dtable[ids[i] - first_row] += dy[i], in the order of i: deterministic
  static constexpr std::string_view name = "embedding_grad";
  Tensor ids, dy;
  Tensor dtable;  // [rows, n], f32 or dy's dtype
  std::int64_t first_row = 0;
  void check() const {
    need_dtype(name, "ids", ids, DType::i64);
    need_float(name, "dtable", dtable);
    mbench::check(dy.shape().rows() == ids.numel() && dy.shape().cols() == dtable.shape().cols(), name,
                  "shape of dy, got {} for {} ids of width {}", dy.shape(), ids.numel(), dtable.shape().cols());
  }
  Cost cost() const { return {static_cast<double>(dy.numel()), 3 * bytes_of(dy) + bytes_of(ids)}; }
};

}  // namespace mbench::ops
