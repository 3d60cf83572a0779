#include "engine/backend/cuda/matmul/matmul_description.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench::cuda {
namespace {

using ops::Matmul;
using ops::Matrix;

constexpr std::int64_t kEpilogueAlignment = 16;  // bytes
constexpr std::int64_t kAuxiliaryMultiple = 8;   // elements

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      fail(ErrorKind::internal, Matmul::name, "type, got {}, need f32, bf16 or f16", name_of(t));
  }
}

bool fits(const Tensor& t) {
  return !t || alignment_of(t.data()) >= kEpilogueAlignment;
}

}  // namespace

void need(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::out_of_memory : ErrorKind::internal, Matmul::name,
         "{} failed, got {}", call, cublasLtGetStatusString(status));
}

std::byte* address_of(const Matrix& m) {
  return m.data.data() + m.offset * static_cast<std::int64_t>(size_of(m.data.dtype()));
}

std::int64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256u;
  return static_cast<std::int64_t>(bits & ~(bits - 1));
}

cublasLtEpilogue_t epilogue_of(const Matmul& op) {
  if (op.gelu_input) return op.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (op.bias) return CUBLASLT_EPILOGUE_BIAS;
  if (op.gelu_grad_input) return CUBLASLT_EPILOGUE_DGELU;
  if (op.bias_gradient) return CUBLASLT_EPILOGUE_BGRADB;  // sums over k of the second operand, our a
  return CUBLASLT_EPILOGUE_DEFAULT;
}

const Tensor& auxiliary_of(const Matmul& op) {
  return op.gelu_input ? op.gelu_input : op.gelu_grad_input;
}

bool epilogue_fits(const Matmul& op, bool tf32) {
  const Tensor& auxiliary = auxiliary_of(op);
  if (auxiliary && op.a.data.dtype() == DType::f32 && !tf32) return false;
  return fits(op.bias) && fits(auxiliary) && (!auxiliary || op.c.cols % kAuxiliaryMultiple == 0);
}

Layout::Layout(const Matrix& m, std::int64_t batch) {
  const std::int64_t stored_rows = m.transposed ? m.cols : m.rows, stored_cols = m.transposed ? m.rows : m.cols;
  need(cublasLtMatrixLayoutCreate(&layout_, type_of(m.data.dtype()), static_cast<std::uint64_t>(stored_cols),
                                  static_cast<std::uint64_t>(stored_rows), m.ld),
       "cublasLtMatrixLayoutCreate");
  if (batch == 1) return;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t what, const auto& value) {
    need(cublasLtMatrixLayoutSetAttribute(layout_, what, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
}

Description::Description(const Matmul& op, bool tf32, bool inside) {
  const cublasComputeType_t compute =
      tf32 && op.a.data.dtype() == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  need(cublasLtMatmulDescCreate(&description_, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto transposition = [](const Matrix& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(op.b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(op.a));
  if (!inside) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue_of(op)));
  if (auxiliary_of(op)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, op.c.cols);
}

void Description::point_to(const void* bias, const void* auxiliary) {
  if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (auxiliary != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, auxiliary);
}

Preference::Preference(const Matmul& op, std::size_t workspace) {
  need(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  // Partial sums are added in f32 and in a fixed order, never in the type of the result.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // Without the epilogue inside, the product before a GELU goes to its input.
  std::int64_t result = alignment_of(address_of(op.c));
  if (op.gelu_input) result = std::min(result, alignment_of(op.gelu_input.data()));
  const auto alignment = [&](cublasLtMatmulPreferenceAttributes_t of, std::int64_t bytes) {
    set(of, static_cast<std::uint32_t>(bytes));
  };
  alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(address_of(op.b)));
  alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(address_of(op.a)));
  alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
  alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
}

}  // namespace mbench::cuda
