// What a device's clock said of a GEMM that has an epilogue (bias, GELU, their gradients): whether it runs inside the GEMM's kernel, or the
// GEMM and then kernels of the epilogue's own.
#pragma once
#include <string>

namespace mbench {

struct GemmChoice {
  std::string gemm;  // "16384 x 8192 x 2048, bf16 to bf16, bias, GELU"
  bool fused = true;
  double fused_us = 0, separate_us = 0;  // of all kernels, the fastest of some runs
};

}  // namespace mbench
