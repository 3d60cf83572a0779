// FP64 GEMMs outside the engine, which has no such type.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace mbench {

// c = a b of n x n elements in this process's memory.
using Fp64Gemm = std::function<void(std::int64_t n, const double* a, const double* b, double* c)>;
// The one of a kind of device; null where there is none: cuda.
Fp64Gemm fp64_gemm_on(const std::string& kind);

}  // namespace mbench
