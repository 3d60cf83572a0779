#include "engine/backend/cpu/fp64_gemm.h"

#include <cblas.h>

namespace mbench::cpu {

void fp64_gemm(std::int64_t n, const double* a, const double* b, double* c) {
  const int size = static_cast<int>(n);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a, size, b, size, 0, c, size);
}

}  // namespace mbench::cpu
