// What a device's clock measured for a GEMM with an epilogue (bias, GELU, their gradients). The epilogue runs inside the GEMM's kernel, or
// after the GEMM in kernels of its own.
#pragma once
#include <string>

namespace mbench {

struct GemmChoice {
  std::string gemm;  // "16384 x 8192 x 2048, bf16 to bf16, bias, GELU"
  bool fused = true;
  double fused_us = 0, separate_us = 0;  // of all kernels, the fastest of several runs
};

}  // namespace mbench
