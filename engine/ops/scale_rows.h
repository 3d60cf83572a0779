// Every row times a number of its own, such as the router's weights before the experts' second GEMM; and the gradient.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

// A number for each row of a tensor.
inline void need_row_weights(std::string_view op, std::string_view argument, const Tensor& weights,
                             const Tensor& rows) {
  need_dtype(op, argument, weights, DType::f32);
  mbench::check(weights.numel() == rows.shape().rows(), op, "{}, got {}, need one of each of {} rows", argument,
                weights.shape(), rows.shape().rows());
}

struct ScaleRows {  // y[row] = weights[row] x[row]
  static constexpr std::string_view name = "scale_rows";
  Tensor x;        // [..., n]
  Tensor weights;  // f32, one of each row
  Tensor y;        // like x; may be x itself
  void check() const {
    need_float(name, "x", x);
    need_row_weights(name, "weights", weights, x);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x) + bytes_of(weights) + bytes_of(y)}; }
};

struct ScaleRowsGrad {  // dx[row] = weights[row] dy[row]; dweights[row] = dy[row] . x[row]
  static constexpr std::string_view name = "scale_rows_grad";
  Tensor dy, x;     // [..., n]
  Tensor weights;   // f32, one of each row
  Tensor dx;        // like x; may be dy itself
  Tensor dweights;  // like weights
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    need_row_weights(name, "weights", weights, x);
    need_same(name, "dx", dx, x);
    need_same(name, "dweights", dweights, weights);
  }
  Cost cost() const {
    return {3.0 * static_cast<double>(x.numel()),
            bytes_of(dy) + bytes_of(x) + bytes_of(dx) + bytes_of(weights) + bytes_of(dweights)};
  }
};

}  // namespace mbench::ops
