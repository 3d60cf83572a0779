#include "engine/backend/cpu/fp64_gemm.h"

#include <cblas.h>

#include <memory>

namespace mbench::cpu {

Fp64Gemm fp64_gemm(std::int64_t n, double value) {
  struct Matrices {
    std::vector<double> a, b, c;
  };
  const auto elements = static_cast<std::size_t>(n * n);
  const auto of = std::make_shared<Matrices>(Matrices{
      std::vector<double>(elements, value), std::vector<double>(elements, value), std::vector<double>(elements)});
  const int size = static_cast<int>(n);
  return {[of, size] {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, of->a.data(), size,
                        of->b.data(), size, 0, of->c.data(), size);
          },
          [of] { return of->c; }};
}

}  // namespace mbench::cpu
