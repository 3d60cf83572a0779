// Gathers the rows of the experts from the tokens; and its gradient. DispatchPlan says which row belongs to which
// token.
#pragma once
#include <algorithm>

#include "engine/ops/arguments.h"

namespace mbench::ops {

// rows: [tokens, k] i64, what DispatchPlan made of `tokens` tokens.
inline void need_rows_of(std::string_view op, const Tensor& rows, std::int64_t tokens) {
  need_dtype(op, "rows", rows, DType::i64);
  mbench::check(rows.shape().rows() == tokens, op, "rows, got {}, need [{} tokens, k]", rows.shape(), tokens);
}

// How many rows of `of` are read. A row has at most one pair; pairs whose experts are on other ranks have no row.
inline std::int64_t read_of(const Tensor& rows, const Tensor& of) {
  return std::min(rows.numel(), of.shape().rows());
}

struct Dispatch {  // y[row] = x[token of the row's pair], zero where the row is padding
  static constexpr std::string_view name = "dispatch";
  Tensor x;                  // [..., n], a row for each token
  Tensor pairs;              // [rows] i64; outside [0, tokens * k): padding
  std::int64_t k = 1;        // experts of a token
  Tensor y;                  // [rows, n]
  bool in_exchange = false;  // part of the kernel that sends the rows, which counts the traffic
  void check() const {
    need_float(name, "x", x);
    need_dtype(name, "pairs", pairs, DType::i64);
    need_dtype(name, "y", y, x.dtype());
    need_shape(name, "y", y, {pairs.numel(), x.shape().cols()});
    mbench::check(k > 0, name, "experts of a token, got {}, need at least 1", k);
  }
  Cost cost() const { return in_exchange ? Cost{} : Cost{0, bytes_of(pairs) + 2 * bytes_of(y)}; }
};

struct DispatchGrad {  // dx[token] = sum over its pairs of dy[the pair's row], in the order of the slots
  static constexpr std::string_view name = "dispatch_grad";
  Tensor dy;                 // [rows, n]
  Tensor rows;               // [tokens, k] i64; outside [0, rows): the pair has none
  Tensor dx;                 // [..., n], a row for each token
  bool in_exchange = false;  // part of the kernel that brought the rows
  void check() const {
    need_float(name, "dx", dx);
    need_rows_of(name, rows, dx.shape().rows());
    need_dtype(name, "dy", dy, dx.dtype());
    need_shape(name, "dy", dy, {dy.shape().rows(), dx.shape().cols()});
  }
  Cost cost() const {
    if (in_exchange) return {};
    const auto n = static_cast<double>(read_of(rows, dy) * dx.shape().cols());
    return {n, n * static_cast<double>(size_of(dy.dtype())) + bytes_of(rows) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
