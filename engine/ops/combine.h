// Gathers the tokens from the rows of the experts, weighted by the router; and its gradient. DispatchPlan says which
// row belongs to which token.
#pragma once
#include "engine/ops/dispatch.h"

namespace mbench::ops {

struct Combine {  // y[token] = sum over its pairs of weights[pair] * x[the pair's row], in the order of the slots
  static constexpr std::string_view name = "combine";
  Tensor x;        // [rows, n]
  Tensor rows;     // [tokens, k] i64; outside [0, rows): dropped, adds nothing
  Tensor weights;  // [tokens, k] f32
  Tensor y;        // [..., n], a row for each token
  void check() const {
    need_float(name, "y", y);
    need_rows_of(name, rows, y.shape().rows());
    need_shape(name, "weights", weights, rows.shape());
    need_dtype(name, "weights", weights, DType::f32);
    need_dtype(name, "x", x, y.dtype());
    need_shape(name, "x", x, {x.shape().rows(), y.shape().cols()});
  }
  Cost cost() const {
    const auto n = static_cast<double>(read_of(rows, x) * y.shape().cols());
    return {2 * n, n * static_cast<double>(size_of(x.dtype())) + bytes_of(rows) + bytes_of(weights) + bytes_of(y)};
  }
};

struct CombineGrad {  // dx[row] = weights[its pair] * dy[its token], 0 in padding; dweights[pair] = dy[token] . x[row]
  static constexpr std::string_view name = "combine_grad";
  Tensor dy;             // [..., n], a row for each token
  Tensor x;              // [rows, n]
  Tensor rows, weights;  // [tokens, k] i64 and f32
  Tensor pairs;          // [rows] i64, as DispatchPlan made them: the inverse of `rows`
  Tensor dx;             // like x; may be x itself
  Tensor dweights;       // [tokens, k] f32; 0 of dropped pairs
  void check() const {
    need_float(name, "dy", dy);
    need_rows_of(name, rows, dy.shape().rows());
    need_shape(name, "weights", weights, rows.shape());
    need_dtype(name, "weights", weights, DType::f32);
    need_same(name, "dweights", dweights, weights);
    need_dtype(name, "pairs", pairs, DType::i64);
    need_dtype(name, "x", x, dy.dtype());
    need_shape(name, "x", x, {pairs.numel(), dy.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const {
    return {3.0 * static_cast<double>(x.numel()),
            2 * bytes_of(x) + bytes_of(dx) + bytes_of(rows) + bytes_of(weights) + bytes_of(pairs) + bytes_of(dweights)};
  }
};

}  // namespace mbench::ops
