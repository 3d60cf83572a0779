// The biases of experts: each expert's is added to its own rows, which lie one after the other, experts in order. With
// weights a row's bias is multiplied by the row's weight, as where the router's weights multiply the input of the
// experts' second GEMM. Also the gradients of both.
#pragma once
#include <span>

#include "engine/ops/arguments.h"
#include "engine/ops/scale_rows.h"

namespace mbench::ops {

// Which rows an expert has: as many as every other, or those between the offsets. The host must know them.
struct RowsOfExperts {
  std::int64_t each = 0;
  std::span<const std::int64_t> offsets{};  // [experts + 1] where `each` is 0, rising; read before the call returns

  std::int64_t begin(std::int64_t expert) const {
    return each > 0 ? expert * each : offsets[static_cast<std::size_t>(expert)];
  }
  std::int64_t count(std::int64_t expert) const { return begin(expert + 1) - begin(expert); }
  void check(std::string_view op, std::int64_t experts, std::int64_t rows) const {
    if (each > 0)
      return mbench::check(experts * each <= rows, op, "rows, got {}, need {} of each of {} experts", rows, each,
                           experts);
    mbench::check(static_cast<std::int64_t>(offsets.size()) == experts + 1, op, "offsets, got {}, need {}",
                  offsets.size(), experts + 1);
    std::int64_t end = 0;
    for (const std::int64_t offset : offsets) {
      mbench::check(offset >= end && offset <= rows, op, "offsets, got {} after {}, need rising ones of at most {}",
                    offset, end, rows);
      end = offset;
    }
  }
};

struct ExpertBias {  // y[row] += share * weights[row] * bias[the row's expert]; rows without an expert stay
  static constexpr std::string_view name = "expert_bias";
  Tensor y;             // [rows, n]
  Tensor bias;          // [experts, n], y's dtype
  Tensor weights = {};  // optional: f32, one of each row
  RowsOfExperts rows = {};
  float share = 1;  // of the bias, where several ranks' y are summed
  void check() const {
    need_float(name, "y", y);
    need_shape(name, "bias", bias, {bias.shape()[0], y.shape().cols()});
    need_dtype(name, "bias", bias, y.dtype());
    if (weights) need_row_weights(name, "weights", weights, y);
    rows.check(name, bias.shape()[0], y.shape().rows());
  }
  Cost cost() const { return {2 * static_cast<double>(y.numel()), 2 * bytes_of(y) + bytes_of(bias)}; }
};

// dbias[expert] += sum over its rows of weights[row] * dy[row].
// With weights also dweights[row] = share * dy[row] . bias[its expert], 0 in rows without an expert.
struct ExpertBiasGrad {
  static constexpr std::string_view name = "expert_bias_grad";
  Tensor dy;                                      // [rows, n]
  Tensor dbias;                                   // [experts, n], f32 or dy's dtype
  Tensor weights = {}, bias = {}, dweights = {};  // all or none; as above, dweights like weights
  RowsOfExperts rows = {};
  float share = 1;
  void check() const {
    need_float(name, "dy", dy);
    need_float(name, "dbias", dbias);
    need_shape(name, "dbias", dbias, {dbias.shape()[0], dy.shape().cols()});
    rows.check(name, dbias.shape()[0], dy.shape().rows());
    const bool weighted = static_cast<bool>(weights);
    mbench::check(weighted == static_cast<bool>(bias) && weighted == static_cast<bool>(dweights), name,
                  "some of weights, bias and dweights, need all or none");
    if (!weighted) return;
    need_row_weights(name, "weights", weights, dy);
    need_shape(name, "bias", bias, dbias.shape());
    need_dtype(name, "bias", bias, dy.dtype());
    need_same(name, "dweights", dweights, weights);
  }
  Cost cost() const {
    return {
        (weights ? 4.0 : 1.0) * static_cast<double>(dy.numel()),
        (weights ? 2 : 1) * bytes_of(dy) + bytes_of(bias) + bytes_of(weights) + bytes_of(dweights) + bytes_of(dbias)};
  }
};

}  // namespace mbench::ops
