// A GEMM in FP64, for the check of a machine. The engine has no such type: training needs none.
#pragma once
#include <cstdint>

namespace mbench::cpu {

// c = a b of n x n elements, row by row, by the BLAS that f32 GEMMs run in and its threads.
void fp64_gemm(std::int64_t n, const double* a, const double* b, double* c);

}  // namespace mbench::cpu
