// Vocabulary-parallel cross entropy, in steps between which the ranks of a tensor-parallel group reduce:
// RowMax -> all-reduce max -> ExpSum -> all-reduce sum of both outputs -> CrossEntropyLoss, CrossEntropyGrad.
// Where one rank has the whole vocabulary, MaxExpSum replaces all steps before the loss. Columns from `valid` on pad the
// vocabulary: they take no part, and their gradient is zero.
// loss = inv_weight_sum * sum_i weight_i * (log(sum_i) - target_i).
// target_i is the target's logit less the row maximum.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct RowMax {
  static constexpr std::string_view name = "row_max";
  Tensor x;                // [rows, n]
  Tensor max;              // [rows] f32; -infinity where no column is valid
  std::int64_t valid = 0;  // local columns that are real words
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "max", max, {x.shape().rows()});
    need_dtype(name, "max", max, DType::f32);
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x)}; }
};

struct ExpSum {
  static constexpr std::string_view name = "exp_sum";
  Tensor logits;   // [rows, n], columns first_column ... first_column + n of the vocabulary
  Tensor max;      // [rows] f32
  Tensor targets;  // [rows] i64
  std::int64_t first_column = 0;
  std::int64_t valid = 0;  // local columns that are real words; exp is 0 in the others
  Tensor sum;              // [rows] f32: sum over local columns of exp(logit - max)
  Tensor target;           // [rows] f32: logit - max of the target, 0 if it is not local
  Tensor exp;  // optional, shape of logits, f32: the exponentials, kept for the gradient; may be logits itself
  void check() const {
    need_float(name, "logits", logits);
    const Shape rows{logits.shape().rows()};
    need_shape(name, "max", max, rows);
    need_shape(name, "targets", targets, rows);
    need_dtype(name, "targets", targets, DType::i64);
    need_shape(name, "sum", sum, rows);
    need_shape(name, "target", target, rows);
    if (exp) need_shape(name, "exp", exp, logits.shape());
    if (exp) need_dtype(name, "exp", exp, DType::f32);
  }
  Cost cost() const { return {6.0 * static_cast<double>(logits.numel()), bytes_of(logits) + bytes_of(exp)}; }
};

struct MaxExpSum {  // RowMax and ExpSum of all columns, which a GPU reads once
  static constexpr std::string_view name = "max_exp_sum";
  Tensor logits;           // [rows, n]
  Tensor targets;          // [rows] i64
  std::int64_t valid = 0;  // columns that are real words
  Tensor max;              // [rows] f32, as of RowMax
  Tensor sum, target;      // [rows] f32, as of ExpSum
  void check() const {
    need_float(name, "logits", logits);
    const Shape rows{logits.shape().rows()};
    need_shape(name, "targets", targets, rows);
    need_shape(name, "max", max, rows);
    need_dtype(name, "max", max, DType::f32);
    need_same(name, "sum", sum, max);
    need_same(name, "target", target, max);
  }
  Cost cost() const { return {7.0 * static_cast<double>(logits.numel()), bytes_of(logits)}; }
};

struct CrossEntropyLoss {
  static constexpr std::string_view name = "cross_entropy_loss";
  Tensor sum, target;        // [rows] f32, over the whole vocabulary
  Tensor weight;             // optional [rows] f32; all one if empty
  float inv_weight_sum = 1;  // 1 / sum of the weights
  Tensor loss;               // [1] f32, overwritten
  Tensor factor{};           // optional [1] f32, in place of inv_weight_sum
  void check() const {
    need_dtype(name, "sum", sum, DType::f32);
    need_same(name, "target", target, sum);
    if (weight) need_same(name, "weight", weight, sum);
    need_shape(name, "loss", loss, {1});
    if (factor) need_same(name, "factor", factor, loss);
  }
  Cost cost() const { return {4.0 * static_cast<double>(sum.numel()), bytes_of(sum) + bytes_of(target)}; }
};

struct CrossEntropyGrad {  // dlogits = scale * weight_i * (exp(logit - max) / sum - [column is the target])
  static constexpr std::string_view name = "cross_entropy_grad";
  Tensor logits;  // the logits, or empty if `exp` is given
  Tensor exp;     // as kept by ExpSum, or empty
  Tensor max, sum, targets;
  Tensor weight;  // optional
  float scale = 1;
  std::int64_t first_column = 0;
  std::int64_t valid = 0;
  Tensor dlogits;   // [rows, n]; may be logits or exp itself
  Tensor factor{};  // optional [1] f32, in place of scale
  const Tensor& source() const { return exp ? exp : logits; }
  void check() const {
    need_float(name, "logits or exp", source());
    need_float(name, "dlogits", dlogits);
    need_shape(name, "dlogits", dlogits, source().shape());
    const Shape rows{source().shape().rows()};
    need_shape(name, "sum", sum, rows);
    need_shape(name, "targets", targets, rows);
    if (weight) need_shape(name, "weight", weight, rows);
    if (!exp) need_shape(name, "max", max, rows);
    if (factor) need_shape(name, "factor", factor, {1});
    if (factor) need_dtype(name, "factor", factor, DType::f32);
  }
  Cost cost() const { return {6.0 * static_cast<double>(dlogits.numel()), bytes_of(source()) + bytes_of(dlogits)}; }
};

}  // namespace mbench::ops
