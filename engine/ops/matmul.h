// Batched GEMM: C[i] = alpha * A[i] * B[i] + beta * C[i], all row-major; f32 accumulation.
//
// A single GEMM may carry an epilogue in place of ops: bias (BiasAdd), bias and GELU (BiasGelu), or the gradient of a
// GELU (BiasGeluGrad). The GEMM of a weight gradient may carry the gradient of the bias (BiasGrad). Results are those
// of the ops, but for one rounding. Where a backend runs the epilogue on its f32 sums, a 16-bit result is not rounded
// before bias and GELU. Where it runs the GEMM and then the ops (the CPU always, see epilogue.h), it is rounded.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

struct Matmul {
  static constexpr std::string_view name = "matmul";
  static constexpr TimePart part = TimePart::gemms;
  Matrix a;  // [m, k]
  Matrix b;  // [k, n]
  Matrix c;  // [m, n], never transposed
  std::int64_t batch = 1;
  float alpha = 1, beta = 0;

  // The epilogue: none, bias or GELU or both, the gradient of a GELU, or of a bias. It needs batch 1, alpha 1
  // and a contiguous c; all but the last need beta 0.
  Tensor bias{};             // [n], c's dtype: added to every row
  Tensor gelu_input{};       // [m, n], c's dtype: gets A B + bias, and c gets its GELU
  Tensor gelu_grad_input{};  // [m, n], c's dtype: c gets (A B) * gelu'(this)
  Tensor bias_gradient{};    // [m], c's dtype: += sum over k of a, which is a contiguous tensor transposed

  bool has_epilogue() const { return bias || gelu_input || gelu_grad_input || bias_gradient; }
  // The same without its epilogue.
  Matmul gemm() const { return {a, b, c, batch, alpha, beta}; }
  void check() const;
  // An epilogue adds its arithmetic and the tensors that only it touches; c and a cross the bus once.
  Cost cost() const;
  double epilogue_flops() const;  // as the ops count them
};

}  // namespace mbench::ops
