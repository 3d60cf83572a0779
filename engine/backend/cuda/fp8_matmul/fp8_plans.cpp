#include "engine/backend/cuda/fp8_matmul/fp8_plans.h"

#include <fmt/format.h>

#include <string>

#include "engine/backend/cuda/cuda.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/cuda/fp8_matmul/nv_factors.h"
#include "engine/backend/cuda/matmul/matmul_description.h"
#include "engine/device/fp8_layouts.h"

namespace mbench::cuda {
namespace {

using ops::Fp8Blocks;
using ops::Fp8Matmul;
using ops::Fp8Operand;

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what cuBLAS recommends on Hopper
constexpr std::size_t kFactors = 256;  // of it, for the factors of a GEMM of NVFP4, or for two scales
// On an H200 cuBLASLt 13.1 ran the GEMMs of tests, with scales at multiples of 256 bytes, and refused those of training, with scales at
// others of 8. Their shapes differ too: that the addresses are the cause is not confirmed on a GPU.
constexpr std::int64_t kScaleAlignment = 16;
// CUDA 12.9's cuBLAS is the first with scales of blocks; they need a GPU of compute capability 9.0.
#define MBENCH_FP8_BLOCKS (CUBLAS_VERSION >= 120900)

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cudaDataType_t type_of(const Fp8Operand& x) {
#if MBENCH_FP8_BLOCKS
  if (of_nvfp4(x.blocks)) return CUDA_R_4F_E2M1;
#endif
  return type_of(x.codes.dtype());
}

// Column-major, as cuBLAS counts: a row-major [outer, inner] is an inner x outer; a turned operand is an outer x inner.
class Columns {
 public:
  explicit Columns(const Tensor& t) : Columns(type_of(t.dtype()), t.shape()[0], t.shape()[1]) {}
  explicit Columns(const Fp8Operand& x)
      : Columns(type_of(x), x.turned ? x.inner() : x.outer(), x.turned ? x.outer() : x.inner()) {}
  Columns(cudaDataType_t type, std::int64_t outer, std::int64_t inner) {
    need(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(inner),
                                    static_cast<std::uint64_t>(outer), inner),
         "cublasLtMatrixLayoutCreate");
  }
  ~Columns() { cublasLtMatrixLayoutDestroy(layout_); }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t what, const T& value) {
  need(cublasLtMatmulDescSetAttribute(description, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

#if MBENCH_FP8_BLOCKS
std::int32_t mode_of(Fp8Blocks blocks) {
  switch (blocks) {
    case Fp8Blocks::whole_rows:
      return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case Fp8Blocks::rows:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Fp8Blocks::nv:
    case Fp8Blocks::nv_squares:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    case Fp8Blocks::mx:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    case Fp8Blocks::squares:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}
#endif

// Why the current GPU, or the library that this was compiled with, has no such products.
std::optional<std::string> why_none_here(const Fp8Matmul& op) {
  const Fp8Blocks by = op.a.blocks;
  int device = 0, major = 0, minor = 0;
  cuda_check(Fp8Matmul::name, cudaGetDevice(&device));
  cuda_check(Fp8Matmul::name, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  cuda_check(Fp8Matmul::name, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (by != Fp8Blocks::tensor && !MBENCH_FP8_BLOCKS)
    return "scales of parts of a tensor, need a binary built with CUDA 12.9 or newer";
  const int capability = 10 * major + minor;
  if ((op.a.turned || op.b.turned) && !multiplies_turned_fp8(capability))
    return fmt::format(
        "FP8 operands that lie along their outer dim on a GPU of compute capability {}.{}, need 10.0 to 11, or "
        "transposed operands",
        major, minor);
  return why_no_fp8(capability, by);
}

// By one scale a tensor gradients have an e5m2 operand and forward products do not. Of these the tensor cores may keep sums of fewer bits,
// which is faster: what Transformer Engine asks of cuBLASLt (use_split_accumulator false), and not for gradients or blocks.
bool is_forward(const Fp8Matmul& op) {
  return op.a.blocks == Fp8Blocks::tensor && op.a.codes.dtype() == DType::e4m3 && op.b.codes.dtype() == DType::e4m3;
}

// The call with what cuBLASLt has rules about.
std::string describe(const Fp8Matmul& op, const void* scales_a, const void* scales_b) {
  const auto at = [](const Tensor& t) { return alignment_of(t.data()); };
  return fmt::format(
      "cublasLtMatmul of {} x {} x {}, {} and {} to {}, beta {}, addresses divisible by {}, {} and {}, those of scales "
      "by {} and {},",
      op.m(), op.n(), op.k(), name_of(op.a.codes.dtype()), name_of(op.b.codes.dtype()), name_of(op.c.dtype()), op.beta,
      at(op.a.codes), at(op.b.codes), at(op.c), alignment_of(scales_a), alignment_of(scales_b));
}

}  // namespace

struct Fp8Plans::Plan {
  explicit Plan(const Fp8Matmul& op) : first(op.b), second(op.a), result(op.c) {
    need(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, op.b.turned ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, op.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(is_forward(op)));
#if MBENCH_FP8_BLOCKS
    if (of_nvfp4(op.a.blocks))
      set(description, CUBLASLT_MATMUL_DESC_POINTER_MODE, static_cast<std::int32_t>(CUBLASLT_POINTER_MODE_DEVICE));
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(op.b.blocks));
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(op.a.blocks));
#endif
  }
  ~Plan() {
    cublasLtMatmulDescDestroy(description);
  }
  void point_to(const Scales& scales) {
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.b);
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.a);
  }
  // C^T = B A^T: cuBLAS's first operand is b, its second is a.
  Columns first, second, result;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Fp8Plans::Fp8Plans(cudaStream_t stream, Allocator& memory) : stream_(stream), charged_(memory) {}

Fp8Plans::~Fp8Plans() {
  plans_.clear();
  if (handle_ == nullptr) return;
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

void Fp8Plans::open() {
  if (handle_ != nullptr) return;
  charged_.resize(kWorkspace, "workspace of cuBLASLt's FP8 GEMMs");
  cuda_check(Fp8Matmul::name, cudaMalloc(&workspace_, kWorkspace));
  need(cublasLtCreate(&handle_), "cublasLtCreate");
}

Fp8Plans::Key Fp8Plans::key_of(const Fp8Matmul& op) {
  const auto type = [](const Tensor& t) { return static_cast<std::int64_t>(t.dtype()); };
  return {op.m(),
          op.n(),
          op.k(),
          type(op.a.codes),
          type(op.b.codes),
          type(op.c),
          static_cast<std::int64_t>(op.a.blocks),
          static_cast<std::int64_t>(op.b.blocks),
          op.a.turned,
          op.b.turned,
          op.beta == 0,
          alignment_of(op.a.codes.data()),
          alignment_of(op.b.codes.data()),
          alignment_of(op.c.data())};
}

// Of one scale a tensor, which may be an element of an array, copies where cuBLASLt takes them. The kernels of a stream run one after the
// other: the next GEMM's copies do not come before this one has read its own.
Fp8Plans::Scales Fp8Plans::scales_of(const Fp8Matmul& op) {
  const Scales own{op.a.inverse.data(), op.b.inverse.data()};
  const auto fits = [](const void* scale) { return alignment_of(scale) >= kScaleAlignment; };
  if (op.a.blocks != Fp8Blocks::tensor || (fits(own.a) && fits(own.b))) return own;
  auto* copies = static_cast<float*>(workspace_);
  constexpr std::int64_t kApart = kScaleAlignment / sizeof(float);
  copy_scales(stream_, op.a.inverse.as<float>(), op.b.inverse.as<float>(), copies, copies + kApart);
  return {copies, copies + kApart};
}

std::unique_ptr<Fp8Plans::Plan> Fp8Plans::make(const Fp8Matmul& op, const Scales& scales) {
  if (const auto why = why_none_here(op)) fail(ErrorKind::unsupported, Fp8Matmul::name, "{}", *why);
  auto plan = std::make_unique<Plan>(op);
  plan->point_to(scales);
  cublasLtMatmulPreference_t preference = nullptr;
  need(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    need(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value),
         "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto aligned = [&](cublasLtMatmulPreferenceAttributes_t what, const Tensor& t) {
    prefer(what, static_cast<std::uint32_t>(alignment_of(t.data())));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace - kFactors);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, op.b.codes);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, op.a.codes);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, op.c);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, op.c);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->description, plan->first.get(), plan->second.get(),
                                     plan->result.get(), plan->result.get(), preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    fail(ErrorKind::unsupported, Fp8Matmul::name,
         "cuBLASLt has no algorithm for {} x {} x {}, {} and {} to {} (it says {})", op.m(), op.n(), op.k(),
         name_of(op.a.codes.dtype()), name_of(op.b.codes.dtype()), name_of(op.c.dtype()),
         cublasLtGetStatusString(status));
  plan->algorithm = found.algo;
  return plan;
}

void Fp8Plans::run(const Fp8Matmul& op) {
  open();
  std::unique_ptr<Plan>& plan = plans_[key_of(op)];
  const Scales scales = scales_of(op);
  if (!plan) plan = make(op, scales);
  plan->point_to(scales);
  constexpr float kOne = 1;
  const float *alpha = &kOne, *beta = &op.beta;
  if (of_nvfp4(op.a.blocks)) {
    auto* factors = static_cast<float*>(workspace_);
    write_nv_factors(stream_, op.a.amax.as<float>(), op.b.amax.as<float>(), op.beta, factors);
    alpha = factors, beta = factors + 1;
  }
  const cublasStatus_t status =
      cublasLtMatmul(handle_, plan->description, alpha, op.b.codes.data(), plan->first.get(), op.a.codes.data(),
                     plan->second.get(), beta, op.c.data(), plan->result.get(), op.c.data(), plan->result.get(),
                     &plan->algorithm, static_cast<std::byte*>(workspace_) + kFactors, kWorkspace - kFactors, stream_);
  if (status != CUBLAS_STATUS_SUCCESS) need(status, describe(op, scales.a, scales.b).c_str());
}

}  // namespace mbench::cuda
