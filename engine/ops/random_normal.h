// Initial weights: normal draws around a mean. A draw depends only on the global element, so a shard holds exactly the
// numbers of the whole tensor. Element e = global_row * global_cols + global_col comes from Box-Muller on the Philox
// block e / 4. Words (w0, w1) give elements 0, 1 and (w2, w3) elements 2, 3. A pair (w, w') has r = sqrt(-2 ln u) with
// u = (w + 1) / 2^32. Its elements are mean + r cos(2 pi w' / 2^32) and mean + r sin(2 pi w' / 2^32).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct RandomNormal {
  static constexpr std::string_view name = "random_normal";
  Tensor x;  // [rows, cols] (or [cols]), f32
  float stddev = 1;
  RngKey key;
  std::int64_t global_cols = 0;  // row length of the whole tensor
  std::int64_t row0 = 0, col0 = 0;
  float mean = 0;
  void check() const {
    need_dtype(name, "x", x, DType::f32);
    mbench::check(col0 + x.shape().cols() <= global_cols, name, "columns, got {} + {}, need at most {}", col0,
                  x.shape().cols(), global_cols);
  }
  Cost cost() const { return {20.0 * static_cast<double>(x.numel()), bytes_of(x)}; }
};

}  // namespace mbench::ops
