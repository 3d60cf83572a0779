// Matrix products by cuBLASLt. A product's description and algorithm are made once for its shape, strides,
// types and alignment and kept; of the algorithms that the heuristic puts first, the fastest is chosen by
// measurement.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/ops/matmul.h"

namespace mbench::cuda {

class MatmulPlans {
 public:
  // `candidates`: how many algorithms to measure for a shape; 1 takes the heuristic's first, which is the
  // same in every run and on every rank.
  explicit MatmulPlans(cudaStream_t stream, int candidates = 8);
  ~MatmulPlans();
  MatmulPlans(const MatmulPlans&) = delete;
  MatmulPlans& operator=(const MatmulPlans&) = delete;
  void run(const ops::Matmul& op);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 18>;
  static Key key_of(const ops::Matmul& op);
  void choose(Plan& plan, const ops::Matmul& op);
  float time(Plan& plan, const ops::Matmul& op, const cublasLtMatmulAlgo_t& algorithm, std::byte* to);
  cublasStatus_t multiply(Plan& plan, const ops::Matmul& op, const cublasLtMatmulAlgo_t& algorithm,
                          std::byte* to);

  cudaStream_t stream_;
  int candidates_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace mbench::cuda
