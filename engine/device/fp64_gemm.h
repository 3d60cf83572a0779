// A GEMM in FP64, for the check of a machine. The engine has no such type: training needs none.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace mbench {

// c = a b of n x n elements, where a and b have one value everywhere.
struct Fp64Gemm {
  std::function<void()> run;                    // done when it returns
  std::function<std::vector<double>()> result;  // c, in the host's memory
};

using MakeFp64Gemm = std::function<Fp64Gemm(std::int64_t n, double value)>;

}  // namespace mbench
