// cuBLASLt's descriptions of a GEMM, and its epilogues by the names they have here.
#pragma once
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

#include "engine/ops/matmul.h"

namespace mbench::cuda {

// Throws unless `status` is success: out_of_memory if the GPU is full, else internal.
void need(cublasStatus_t status, const char* call);

// The address of element (0, 0) of the batch's first matrix.
std::byte* address_of(const ops::Matrix& m);
// The largest power of two up to 256 that divides the address: the alignment that a kernel may assume.
std::int64_t alignment_of(const void* address);
// cuBLASLt's name for the op's epilogue.
cublasLtEpilogue_t epilogue_of(const ops::Matmul& op);
// The [m, n] tensor that the epilogue writes or reads in addition to the result; empty if none.
const Tensor& auxiliary_of(const ops::Matmul& op);
// Whether the epilogue's tensors suit cuBLASLt. The leading dim of the auxiliary one must be a multiple of 8 elements (cublasLt.h),
// addresses multiples of 16 bytes. cuBLASLt must not compute a GELU of f32 operands unless they are rounded to TF32 (`tf32`): its tanh may
// have fewer bits than f32.
bool epilogue_fits(const ops::Matmul& op, bool tf32);

// A row-major matrix is its transpose in cuBLAS's column-major order.
class Layout {
 public:
  Layout(const ops::Matrix& m, std::int64_t batch);
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

// C^T = B^T A^T: cuBLAS's first operand is b, its second is a.
class Description {
 public:
  // `tf32`: f32 operands are rounded to TF32. Includes the epilogue, if there is one and `inside` is set.
  Description(const ops::Matmul& op, bool tf32, bool inside);
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }
  // Sets the addresses of this call's bias (or gradient of a bias) and auxiliary tensor. Their types are c's, cuBLASLt's default.
  void point_to(const void* bias, const void* auxiliary);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    need(cublasLtMatmulDescSetAttribute(description_, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  cublasLtMatmulDesc_t description_ = nullptr;
};

// Which algorithms may be chosen for operands at these addresses.
class Preference {
 public:
  Preference(const ops::Matmul& op, std::size_t workspace);
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t what, const T& value) {
    need(cublasLtMatmulPreferenceSetAttribute(preference_, what, &value, sizeof value),
         "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace mbench::cuda
