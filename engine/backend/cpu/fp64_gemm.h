// A GEMM in FP64, by the BLAS that f32 GEMMs run in and its threads.
#pragma once
#include "engine/device/fp64_gemm.h"

namespace mbench::cpu {

Fp64Gemm fp64_gemm(std::int64_t n, double value);

}  // namespace mbench::cpu
