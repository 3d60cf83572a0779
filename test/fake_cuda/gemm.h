// One GEMM as cuBLASLt defines it: column-major, D = epilogue(alpha op(A) op(B) + beta C). Sums in f32, in an order that the algorithm
// sets.
#pragma once
#include <cublasLt.h>

#include <cstdint>

namespace fake_cuda {

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // of the batch
};

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int32_t bias_type = -1;
  void* aux = nullptr;
  std::int64_t aux_ld = 0, aux_stride = 0;
  std::int32_t aux_type = -1;
  // Of FP8 operands: inverses of scales, on the device, and for how many elements each stands.
  const void *scale_a = nullptr, *scale_b = nullptr;
  std::int32_t mode_a = 0, mode_b = 0;
  std::int8_t fast = 0;
};

// How an algorithm adds: in `slices` equal parts of k, each of them in chunks, whose sums are then added.
struct Order {
  int slices = 1;
  std::uint64_t chunk = 0;  // 0: all at once
};

struct Gemm {
  Description description;
  Layout a, b, c, d;
  float alpha = 1, beta = 0;
  const void *A = nullptr, *B = nullptr, *C = nullptr;
  void* D = nullptr;
  Order order;

  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.cols; }
  std::uint64_t k() const { return description.op_a == CUBLAS_OP_N ? a.cols : a.rows; }
};

std::size_t size_of(cudaDataType_t type);
bool is_fp8(cudaDataType_t type);
// Of the element (inner, outer) of an FP8 operand, `inner` along k.
float scale_at(const void* scales, std::int32_t mode, const Layout& layout, std::uint64_t inner, std::uint64_t outer);
void compute(const Gemm& p);

}  // namespace fake_cuda
