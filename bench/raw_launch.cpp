#include "bench/raw_launch.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "engine/base/error.h"

namespace mbench::bench {

const void* empty_kernel();  // empty_kernel.cu

namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;

void need(cudaError_t code, const char* call) {
  if (code != cudaSuccess) fail(ErrorKind::internal, "raw launch", "{} failed, got {}", call, cudaGetErrorName(code));
}

void need(cublasStatus_t code, const char* call) {
  if (code != CUBLAS_STATUS_SUCCESS)
    fail(ErrorKind::internal, "raw launch", "{} failed, got {}", call, cublasLtGetStatusString(code));
}

class CudaLaunches final : public RawLaunches {
 public:
  explicit CudaLaunches(std::int64_t side) : kernel_(empty_kernel()) {
    const auto n = static_cast<std::uint64_t>(side);
    need(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    need(cublasLtCreate(&handle_), "cublasLtCreate");
    need(cudaMalloc(&workspace_, kWorkspace), "cudaMalloc");
    const std::size_t bytes = n * n * 2;
    for (void*& matrix : matrices_) {
      need(cudaMalloc(&matrix, bytes), "cudaMalloc");
      need(cudaMemset(matrix, 0, bytes),
           "cudaMemset");  // bf16 zeros: the host's time does not depend on values
    }
    need(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    need(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_16BF, n, n, side), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    need(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    need(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                              sizeof kWorkspace),
         "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    cublasLtMatmulHeuristicResult_t best{};
    need(cublasLtMatmulAlgoGetHeuristic(handle_, product_, layout_, layout_, layout_, layout_, preference, 1, &best,
                                        &found),
         "cublasLtMatmulAlgoGetHeuristic");
    cublasLtMatmulPreferenceDestroy(preference);
    if (found == 0) fail(ErrorKind::unsupported, "raw launch", "cuBLASLt has no bf16 product of {0} x {0} x {0}", side);
    algorithm_ = best.algo;
  }
  ~CudaLaunches() override {
    cudaStreamSynchronize(stream_);
    cublasLtMatrixLayoutDestroy(layout_);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(handle_);
    for (void* matrix : matrices_) cudaFree(matrix);
    cudaFree(workspace_);
    cudaStreamDestroy(stream_);
  }

  void kernel() override { need(cudaLaunchKernel(kernel_, dim3(1), dim3(1), nullptr, 0, stream_), "cudaLaunchKernel"); }
  void gemm() override {
    constexpr float one = 1, zero = 0;
    need(cublasLtMatmul(handle_, product_, &one, matrices_[0], layout_, matrices_[1], layout_, &zero, matrices_[2],
                        layout_, matrices_[2], layout_, &algorithm_, workspace_, kWorkspace, stream_),
         "cublasLtMatmul");
  }
  void wait() override { need(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  const void* kernel_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  void* workspace_ = nullptr;
  void* matrices_[3] = {};
};

}  // namespace

std::unique_ptr<RawLaunches> open_raw_launches(std::int64_t side) {
  return std::make_unique<CudaLaunches>(side);
}

}  // namespace mbench::bench
