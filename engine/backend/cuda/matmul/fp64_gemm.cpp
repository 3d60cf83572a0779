// By cuBLASLt, which training's GEMMs run in: on data-centre GPUs its FP64 tensor cores.
#include <cublasLt.h>

#include <memory>

#include "engine/backend/cuda/cuda.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/cuda/device/stream.h"
#include "engine/backend/cuda/matmul/matmul_description.h"

namespace mbench::cuda {
namespace {

// n x n elements on the GPU.
class Square {
 public:
  Square(std::int64_t n, double value) : elements_(static_cast<std::size_t>(n * n)) {
    const cudaError_t code = cudaMalloc(&data_, bytes());
    if (code == cudaErrorMemoryAllocation)
      fail(ErrorKind::out_of_memory, "fp64 gemm", "no memory for a matrix, need {} bytes", bytes());
    cuda_check("fp64 gemm", code);
    const std::vector<double> all(elements_, value);
    cuda_check("fp64 gemm", cudaMemcpy(data_, all.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~Square() { cudaFree(data_); }
  Square(const Square&) = delete;
  Square& operator=(const Square&) = delete;
  void* data() const { return data_; }
  std::vector<double> read() const {
    std::vector<double> all(elements_);
    cuda_check("fp64 gemm", cudaMemcpy(all.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return all;
  }

 private:
  std::size_t bytes() const { return elements_ * sizeof(double); }
  std::size_t elements_;
  void* data_ = nullptr;
};

class Gemm {
 public:
  Gemm(std::int64_t n, double value) : a_(n, value), b_(n, value), c_(n, 0) {
    const auto size = static_cast<std::uint64_t>(n);
    need(cublasLtCreate(&handle_), "cublasLtCreate");
    need(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_64F, CUDA_R_64F), "cublasLtMatmulDescCreate");
    need(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_64F, size, size, n), "cublasLtMatrixLayoutCreate");
    need(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    int found = 0;
    need(cublasLtMatmulAlgoGetHeuristic(handle_, description_, layout_, layout_, layout_, layout_, preference_, 1,
                                        &chosen_, &found),
         "cublasLtMatmulAlgoGetHeuristic");
    check(found == 1, "fp64 gemm", "cuBLASLt has no algorithm for {} x {}, need one", n, n);
  }
  ~Gemm() {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatrixLayoutDestroy(layout_);
    cublasLtMatmulDescDestroy(description_);
    cublasLtDestroy(handle_);
  }
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void run() {
    const double one = 1, zero = 0;
    need(cublasLtMatmul(handle_, description_, &one, a_.data(), layout_, b_.data(), layout_, &zero, c_.data(), layout_,
                        c_.data(), layout_, &chosen_.algo, nullptr, 0, stream_.get()),
         "cublasLtMatmul");
    cuda_check("fp64 gemm", cudaStreamSynchronize(stream_.get()));
  }
  std::vector<double> result() const { return c_.read(); }

 private:
  Stream stream_;
  Square a_, b_, c_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

}  // namespace

Fp64Gemm fp64_gemm(std::int64_t n, double value) {
  const auto gemm = std::make_shared<Gemm>(n, value);
  return {[gemm] { gemm->run(); }, [gemm] { return gemm->result(); }};
}

}  // namespace mbench::cuda
