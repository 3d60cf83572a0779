// The epilogue of a GEMM as ops of their own, for backends and shapes without a kernel that does both. They run after
// the GEMM; only the gradient of a bias can run at any time.
#pragma once
#include "engine/ops/bias_add.h"
#include "engine/ops/bias_gelu.h"
#include "engine/ops/matmul.h"

namespace mbench::ops {

// The GEMM that those ops expect: without epilogue, into gelu_input where there is one.
inline Matmul gemm_before_epilogue(const Matmul& op) {
  Matmul gemm = op.gemm();
  if (op.gelu_input) gemm.c = Matrix(op.gelu_input, op.c.rows, op.c.cols, op.c.cols);
  return gemm;
}

// f(op) for each op of the epilogue, in order.
template <class F>
void for_each_part_of_epilogue(const Matmul& op, F&& f) {
  const Shape shape{op.c.rows, op.c.cols};
  const Tensor c = op.c.data.part(op.c.offset, shape);
  if (op.bias_gradient) f(BiasGrad{op.a.data.part(op.a.offset, {op.a.cols, op.a.rows}), op.bias_gradient});
  if (op.gelu_input) {
    const Tensor sum = op.gelu_input.view(shape);
    f(BiasGelu{sum, op.bias, c, op.bias ? sum : Tensor()});
  } else if (op.bias) {
    f(BiasAdd{c, op.bias, c});
  }
  if (op.gelu_grad_input) f(BiasGeluGrad{c, op.gelu_grad_input.view(shape), Tensor(), c});
}

// Their total cost.
inline Cost cost_of_epilogue(const Matmul& op) {
  Cost sum;
  for_each_part_of_epilogue(op, [&](const auto& part) {
    const Cost cost = part.cost();
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  });
  return sum;
}

}  // namespace mbench::ops
