#include "engine/backend/cuda/matmul_plans.h"

#include <algorithm>
#include <vector>

#include "engine/backend/cuda/launch.h"

namespace mbench::cuda {
namespace {

using ops::Matmul;
using ops::Matrix;

// What cuBLAS recommends for its fastest kernels on the newest GPUs.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr int kTimedRuns = 3;

void need(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ErrorKind::internal, Matmul::name, "{} failed, got {}", call, cublasLtGetStatusString(status));
}

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

std::byte* address_of(const Matrix& m) {
  return m.data.data() + m.offset * static_cast<std::int64_t>(size_of(m.data.dtype()));
}

// The largest power of two up to 256 that divides the address: what a kernel may assume of it.
std::int64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256u;
  return static_cast<std::int64_t>(bits & ~(bits - 1));
}

// A row-major matrix is its transpose in the column-major order that cuBLAS counts in.
class Layout {
 public:
  Layout(const Matrix& m, std::int64_t batch) {
    const std::int64_t stored_rows = m.transposed ? m.cols : m.rows,
                       stored_cols = m.transposed ? m.rows : m.cols;
    need(
        cublasLtMatrixLayoutCreate(&layout_, type_of(m.data.dtype()), static_cast<std::uint64_t>(stored_cols),
                                   static_cast<std::uint64_t>(stored_rows), m.ld),
        "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t what, const T& value) {
    need(cublasLtMatrixLayoutSetAttribute(layout_, what, &value, sizeof value),
         "cublasLtMatrixLayoutSetAttribute");
  }
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  Description(bool first_transposed, bool second_transposed) {
    need(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, first_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second_transposed);
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  void set(cublasLtMatmulDescAttributes_t what, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    need(cublasLtMatmulDescSetAttribute(description_, what, &value, sizeof value),
         "cublasLtMatmulDescSetAttribute");
  }
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  explicit Preference(const Matmul& op) {
    need(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Partial sums are added in f32 and in a fixed order, never in the type of the result.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto alignment = [](const Matrix& m) {
      return static_cast<std::uint32_t>(alignment_of(address_of(m)));
    };
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(op.b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(op.a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(op.c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(op.c));
  }
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

}  // namespace

struct MatmulPlans::Plan {
  explicit Plan(const Matmul& op)
      : description(op.b.transposed, op.a.transposed),
        first(op.b, op.batch),
        second(op.a, op.batch),
        result(op.c, op.batch) {}
  Description description;
  Layout first, second, result;  // C^T = B^T A^T
  cublasLtMatmulAlgo_t algorithm{};
};

MatmulPlans::MatmulPlans(cudaStream_t stream, int candidates) : stream_(stream), candidates_(candidates) {
  need(cublasLtCreate(&handle_), "cublasLtCreate");
  cuda_check(Matmul::name, cudaMalloc(&workspace_, kWorkspace));
  cuda_check(Matmul::name, cudaEventCreate(&begin_));
  cuda_check(Matmul::name, cudaEventCreate(&end_));
}

MatmulPlans::~MatmulPlans() {
  plans_.clear();
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

MatmulPlans::Key MatmulPlans::key_of(const Matmul& op) {
  const auto type = [](const Matrix& m) { return static_cast<std::int64_t>(m.data.dtype()); };
  return {op.c.rows,
          op.c.cols,
          op.a.cols,
          op.batch,
          op.a.ld,
          op.b.ld,
          op.c.ld,
          op.a.batch_stride,
          op.b.batch_stride,
          op.c.batch_stride,
          op.a.transposed,
          op.b.transposed,
          type(op.a),
          type(op.c),
          alignment_of(address_of(op.a)),
          alignment_of(address_of(op.b)),
          alignment_of(address_of(op.c)),
          op.beta == 0};
}

cublasStatus_t MatmulPlans::multiply(Plan& plan, const Matmul& op, const cublasLtMatmulAlgo_t& algorithm,
                                     std::byte* to) {
  return cublasLtMatmul(handle_, plan.description.get(), &op.alpha, address_of(op.b), plan.first.get(),
                        address_of(op.a), plan.second.get(), &op.beta, address_of(op.c), plan.result.get(),
                        to, plan.result.get(), &algorithm, workspace_, kWorkspace, stream_);
}

// Milliseconds of the fastest run, or nothing good where the algorithm refuses.
float MatmulPlans::time(Plan& plan, const Matmul& op, const cublasLtMatmulAlgo_t& algorithm, std::byte* to) {
  constexpr float never = 1e30f;
  float best = never;
  for (int i = 0; i <= kTimedRuns; ++i) {  // the first warms up
    cuda_check(Matmul::name, cudaEventRecord(begin_, stream_));
    if (multiply(plan, op, algorithm, to) != CUBLAS_STATUS_SUCCESS) return never;
    cuda_check(Matmul::name, cudaEventRecord(end_, stream_));
    cuda_check(Matmul::name, cudaEventSynchronize(end_));
    float ms = 0;
    cuda_check(Matmul::name, cudaEventElapsedTime(&ms, begin_, end_));
    if (i > 0) best = std::min(best, ms);
  }
  return best;
}

void MatmulPlans::choose(Plan& plan, const Matmul& op) {
  const Preference preference(op);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(std::max(1, candidates_)));
  int n = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.description.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), preference.get(), static_cast<int>(found.size()), found.data(), &n);
  if (status != CUBLAS_STATUS_SUCCESS || n == 0)
    fail(ErrorKind::unsupported, Matmul::name,
         "cuBLASLt has no algorithm for {} x {} x {}, batch {}, {} to {}, leading dims {}, {}, {} (it says "
         "{})",
         op.c.rows, op.c.cols, op.a.cols, op.batch, name_of(op.a.data.dtype()), name_of(op.c.data.dtype()),
         op.a.ld, op.b.ld, op.c.ld, cublasLtGetStatusString(status));
  plan.algorithm = found[0].algo;
  if (n == 1) return;
  // Measured on the real operands. A result that is added to must not change while it is measured: those runs
  // write elsewhere, and where there is no room for that the heuristic's first choice stays.
  void* elsewhere = nullptr;
  std::byte* to = address_of(op.c);
  if (op.beta != 0) {
    const std::int64_t elements = (op.batch - 1) * op.c.batch_stride + (op.c.rows - 1) * op.c.ld + op.c.cols;
    if (cudaMalloc(&elsewhere, static_cast<std::size_t>(elements) * size_of(op.c.data.dtype())) !=
        cudaSuccess) {
      cudaGetLastError();
      return;
    }
    to = static_cast<std::byte*>(elsewhere);
  }
  float best = time(plan, op, found[0].algo, to);
  for (int i = 1; i < n; ++i) {
    const float ms = time(plan, op, found[static_cast<std::size_t>(i)].algo, to);
    if (ms >= best) continue;
    best = ms;
    plan.algorithm = found[static_cast<std::size_t>(i)].algo;
  }
  if (elsewhere) cuda_check(Matmul::name, cudaFree(elsewhere));
}

void MatmulPlans::run(const Matmul& op) {
  std::unique_ptr<Plan>& plan = plans_[key_of(op)];
  if (!plan) {
    auto made = std::make_unique<Plan>(op);
    choose(*made, op);
    plan = std::move(made);
  }
  need(multiply(*plan, op, plan->algorithm, address_of(op.c)), "cublasLtMatmul");
}

}  // namespace mbench::cuda
