#include "engine/backend/cuda/matmul/matmul_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/ops/add.h"
#include "engine/ops/epilogue.h"

namespace mbench::cuda {
namespace {

using ops::Matmul;
using ops::Matrix;

// What cuBLAS recommends for its fastest kernels on the newest GPUs.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr int kTimedRuns = 3;
// Results of zeros, infinities and NaNs are the same whatever the algorithm: with fewer other numbers than
// one in kInformative they say nothing, and the choice waits for a later call, for kAttempts calls at most.
constexpr double kInformative = 16;
constexpr int kAttempts = 16;
// Of few elements in 16 bits all may be equal by chance, though the sums behind them are not: such products,
// which cost next to nothing, take the first.
constexpr double kEnough = 1 << 16;
constexpr float kNever = 1e30f;
// An epilogue runs in the way that it runs by default, unless the other takes less than this share of its time. The clock's noise is a few
// per cent, and a choice that it made would be another in the next run. The default is fused, but for gradients of a bias: on an H200 six
// of eight took longer inside the GEMM than behind it, by up to 14 % (docs/evidence/2026-11-28-h200.md).
constexpr float kClearly = 0.9f;
// Of products whose sizes are the data's: sizes up to a multiple of this are one to the heuristic, and so many of them are kept.
constexpr std::int64_t kVaryingStep = 128;
constexpr std::size_t kVaryingPlans = 4096;

// From the first element of a batch's first matrix to the last of its last.
std::int64_t extent_of(const Matrix& m, std::int64_t batch) {
  return (batch - 1) * m.batch_stride + (m.rows - 1) * m.ld + m.cols;
}

double elements_of(const Matmul& op) {
  return static_cast<double>(op.batch) * static_cast<double>(op.c.rows * op.c.cols);
}

std::string describe(const Matmul& op) {
  return fmt::format("{} x {} x {}, {} to {}{}{}{}{}", op.c.rows, op.c.cols, op.a.cols, name_of(op.a.data.dtype()),
                     name_of(op.c.data.dtype()), op.bias ? ", bias" : "", op.gelu_input ? ", GELU" : "",
                     op.gelu_grad_input ? ", gradient of GELU" : "", op.bias_gradient ? ", gradient of bias" : "");
}

void need_gemm(cublasStatus_t status, const Matmul& op) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto at = [](const Matrix& m) { return alignment_of(address_of(m)); };
  need(status,
       fmt::format(
           "cublasLtMatmul of {} of {}, beta {}, leading dims {}, {} and {}, addresses divisible by {}, {} and {},",
           op.batch, describe(op), op.beta, op.a.ld, op.b.ld, op.c.ld, at(op.a), at(op.b), at(op.c))
           .c_str());
}

}  // namespace

struct MatmulPlans::Variant {
  Variant(const Matmul& op, bool tf32, bool fused) : description(op, tf32, fused) {}
  Description description;
  std::vector<Algorithm> candidates;  // in the heuristic's order
  Algorithm algorithm{};
};

struct MatmulPlans::Plan {
  Plan(const Matmul& op, bool tf32)
      : first(op.b, op.batch), second(op.a, op.batch), result(op.c, op.batch), separate(op, tf32, false) {}
  Layout first, second, result;
  Variant separate;                // the product alone
  std::unique_ptr<Variant> fused;  // with its epilogue; null where there is none, or none that is faster
  bool tuned = false;
  int attempts = 0;
};

// Where results go while they are compared and timed. A result that is added to must not change meanwhile: it
// goes elsewhere.
struct MatmulPlans::TuningOutput {
  TuningOutput(const Matmul& op, cudaStream_t stream, Allocator& memory) : stream(stream), charged(memory) {
    if (op.beta == 0) return;
    const auto bytes = static_cast<std::size_t>(extent_of(op.c, op.batch)) * size_of(op.c.data.dtype());
    try {
      charged.resize(bytes, "result of a timed GEMM");
    } catch (const OutOfMemory&) {
      no_room = true;
      return;
    }
    if (cudaMallocAsync(&elsewhere, bytes, stream) == cudaSuccess) return;
    cudaGetLastError();  // it must not show up in a later call
    no_room = true;
  }
  ~TuningOutput() {
    if (elsewhere) static_cast<void>(cudaFreeAsync(elsewhere, stream));
  }
  TuningOutput(const TuningOutput&) = delete;
  TuningOutput& operator=(const TuningOutput&) = delete;
  std::byte* to(const Matmul& op) const { return elsewhere ? static_cast<std::byte*>(elsewhere) : address_of(op.c); }
  cudaStream_t stream;  // alone: cudaFree() would wait for messages too
  LibraryMemory charged;
  void* elsewhere = nullptr;
  bool no_room = false;
};

MatmulPlans::MatmulPlans(cudaStream_t stream, CudaOps& ops, Allocator& memory, bool tf32, std::function<void()> idle,
                         int candidates)
    : stream_(stream),
      ops_(ops),
      memory_(memory),
      tf32_(tf32),
      idle_(std::move(idle)),
      candidates_(std::max(1, candidates)),
      fingerprints_(stream, memory),
      charged_(memory) {
  charged_.resize(kWorkspace, "workspace of cuBLASLt");
  need(cublasLtCreate(&handle_), "cublasLtCreate");
  cuda_check(Matmul::name, cudaMalloc(&workspace_, kWorkspace));
  cuda_check(Matmul::name, cudaEventCreate(&begin_));
  cuda_check(Matmul::name, cudaEventCreate(&end_));
}

MatmulPlans::~MatmulPlans() {
  plans_.clear();
  varying_.clear();
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

MatmulPlans::Key MatmulPlans::key_of(const Matmul& op) {
  const auto type = [](const Matrix& m) { return static_cast<std::int64_t>(m.data.dtype()); };
  const auto alignment = [](const Tensor& t) { return t ? alignment_of(t.data()) : 0; };
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
          op.beta == 0,
          epilogue_of(op),
          alignment(op.bias),
          alignment(auxiliary_of(op))};
}

std::vector<MatmulPlans::Algorithm> MatmulPlans::heuristic(Plan& plan, Variant& variant, const Matmul& op, int most,
                                                           cublasStatus_t& status) {
  const Preference preference(op, kWorkspace);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int n = 0;
  status =
      cublasLtMatmulAlgoGetHeuristic(handle_, variant.description.get(), plan.first.get(), plan.second.get(),
                                     plan.result.get(), plan.result.get(), preference.get(), most, found.data(), &n);
  std::vector<Algorithm> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < n; ++i)
    if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(found[static_cast<std::size_t>(i)].algo);
  return algorithms;
}

std::unique_ptr<MatmulPlans::Plan> MatmulPlans::make(const Matmul& op, int most) {
  auto plan = std::make_unique<Plan>(op, tf32_);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  Variant& separate = plan->separate;
  separate.candidates = heuristic(*plan, separate, op, most, status);
  if (separate.candidates.empty())
    fail(ErrorKind::unsupported, Matmul::name,
         "cuBLASLt has no algorithm for {} x {} x {}, batch {}, {} to {}, leading dims {}, {}, {} (it says "
         "{})",
         op.c.rows, op.c.cols, op.a.cols, op.batch, name_of(op.a.data.dtype()), name_of(op.c.data.dtype()), op.a.ld,
         op.b.ld, op.c.ld, cublasLtGetStatusString(status));
  separate.algorithm = separate.candidates.front();
  if (!op.has_epilogue() || !epilogue_fits(op, tf32_)) return plan;
  auto fused = std::make_unique<Variant>(op, tf32_, true);
  // The heuristic looks at how the pointers are aligned.
  const Tensor sums = sums_for(op), &bias = sums ? sums : op.bias, &auxiliary = auxiliary_of(op);
  fused->description.point_to(bias ? bias.data() : nullptr, auxiliary ? auxiliary.data() : nullptr);
  fused->candidates = heuristic(*plan, *fused, op, most, status);
  if (fused->candidates.empty()) return plan;
  fused->algorithm = fused->candidates.front();
  plan->fused = std::move(fused);
  return plan;
}

cublasStatus_t MatmulPlans::multiply(Plan& plan, Variant& variant, const Matmul& op, const Algorithm& algorithm,
                                     std::byte* to) {
  return cublasLtMatmul(handle_, variant.description.get(), &op.alpha, address_of(op.b), plan.first.get(),
                        address_of(op.a), plan.second.get(), &op.beta, address_of(op.c), plan.result.get(), to,
                        plan.result.get(), &algorithm, workspace_, kWorkspace, stream_);
}

// `bias_gradient` is overwritten.
cublasStatus_t MatmulPlans::multiply_fused(Plan& plan, const Matmul& op, const Algorithm& algorithm, std::byte* to,
                                           const Tensor& bias_gradient) {
  const Tensor &bias = bias_gradient ? bias_gradient : op.bias, &auxiliary = auxiliary_of(op);
  plan.fused->description.point_to(bias ? bias.data() : nullptr, auxiliary ? auxiliary.data() : nullptr);
  return multiply(plan, *plan.fused, op, algorithm, to);
}

// cuBLASLt overwrites the gradient of a bias, ours is added to: it goes here first.
Tensor MatmulPlans::sums_for(const Matmul& op) {
  if (!op.bias_gradient) return {};
  return {ops_.workspace, op.bias_gradient.shape(), op.bias_gradient.dtype(), Category::workspace,
          "bias gradient of one GEMM"};
}

// Milliseconds of the fastest run.
template <class Work>
float MatmulPlans::time(const Work& work) {
  float best = kNever;
  for (int i = 0; i <= kTimedRuns; ++i) {  // the first warms up
    cuda_check(Matmul::name, cudaEventRecord(begin_, stream_));
    work();
    cuda_check(Matmul::name, cudaEventRecord(end_, stream_));
    cuda_check(Matmul::name, cudaEventSynchronize(end_));
    float ms = 0;
    cuda_check(Matmul::name, cudaEventElapsedTime(&ms, begin_, end_));
    if (i > 0) best = std::min(best, ms);
  }
  return best;
}

// Leaves the variant with the fastest of its candidates among those that give the bits of the first that
// runs, or with no candidate if none runs. False if the first one's result says too little to compare
// with.
template <class Attempt, class Print>
bool MatmulPlans::pick(Variant& variant, double elements, const Attempt& attempt, const Print& print) {
  std::vector<Algorithm> same;
  decltype(print()) wanted;
  for (const Algorithm& algorithm : variant.candidates) {
    if (attempt(algorithm) != CUBLAS_STATUS_SUCCESS) continue;
    if (!same.empty()) {
      if (print() == wanted) same.push_back(algorithm);
      continue;
    }
    same.push_back(algorithm);
    variant.algorithm = algorithm;
    if (variant.candidates.size() == 1 || elements < kEnough) return true;
    wanted = print();
    if (static_cast<double>(wanted[0].informative) < elements / kInformative) return false;
  }
  variant.candidates = same;
  if (same.size() < 2) return true;
  float best = kNever;
  for (const Algorithm& algorithm : same) {
    const float ms = time([&] { need(attempt(algorithm), "cublasLtMatmul"); });
    if (ms >= best) continue;
    best = ms;
    variant.algorithm = algorithm;
  }
  return true;
}

// Nobody may wait for a stream while it is captured: what is not decided by then stays as it is.
bool MatmulPlans::is_capturing() const {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cuda_check(Matmul::name, cudaStreamIsCapturing(stream_, &capture));
  return capture != cudaStreamCaptureStatusNone;
}

void MatmulPlans::tune(Plan& plan, const Matmul& op) {
  plan.tuned = ++plan.attempts >= kAttempts;
  idle_();  // what is waited for from here on is products alone
  const TuningOutput output(op, stream_, memory_);
  if (output.no_room) {  // then the heuristic's first is kept
    plan.tuned = true;
    return;
  }
  if (!plan.fused) {
    const bool decides = tune_separate(plan, op, output);
    plan.tuned = plan.tuned || decides;
    return;
  }
  const double elements = elements_of(op);
  const auto fingerprint_of = [&](const void* x, std::int64_t n) { return fingerprints_.of(x, op.c.data.dtype(), n); };
  const Tensor sums = sums_for(op);  // the gradient of a bias is not to be added to either
  const Tensor& beside = op.gelu_input ? op.gelu_input : sums;
  const auto both_fused = [&](const Algorithm& algorithm) {
    return multiply_fused(plan, op, algorithm, output.to(op), sums);
  };
  const bool fused_decides = pick(*plan.fused, elements, both_fused, [&] {
    return std::array{fingerprint_of(output.to(op), extent_of(op.c, op.batch)),
                      beside ? fingerprint_of(beside.data(), beside.numel()) : Fingerprint()};
  });
  if (plan.fused->candidates.empty()) {  // none of them runs
    plan.fused.reset();
    plan.tuned = false;
    return tune(plan, op);
  }
  plan.tuned = plan.tuned || fused_decides;
  if (fused_decides && elements >= kEnough && candidates_ > 1) choose_epilogue(plan, op, output, sums);
}

bool MatmulPlans::tune_separate(Plan& plan, const Matmul& op, const TuningOutput& output) {
  const Matmul gemm = ops::gemm_before_epilogue(op);
  return pick(
      plan.separate, elements_of(op),
      [&](const Algorithm& algorithm) { return multiply(plan, plan.separate, gemm, algorithm, output.to(gemm)); },
      [&] { return std::array{fingerprints_.of(output.to(gemm), op.c.data.dtype(), extent_of(gemm.c, op.batch))}; });
}

// Once the fused algorithm is known. Nothing that is added to changes: results go elsewhere, gradients of a bias to `sums`.
void MatmulPlans::choose_epilogue(Plan& plan, const Matmul& op, const TuningOutput& output, const Tensor& sums) {
  if (!tune_separate(plan, op, output) || plan.separate.candidates.empty()) return;
  const Matmul gemm = ops::gemm_before_epilogue(op);
  Matmul trial = op;
  if (sums) trial.bias_gradient = sums;
  GemmChoice choice{describe(op)};
  try {
    const float fused = time([&] {
      need(multiply_fused(plan, op, plan.fused->algorithm, output.to(op), sums), "cublasLtMatmul");
      if (sums) compute(ops_, ops::Add{sums, sums, sums});
    });
    const float separate = time([&] {
      need(multiply(plan, plan.separate, gemm, plan.separate.algorithm, output.to(gemm)), "cublasLtMatmul");
      ops::for_each_part_of_epilogue(trial, [&](const auto& part) { compute(ops_, part); });
    });
    choice.fused = op.bias_gradient ? fused < kClearly * separate : separate >= kClearly * fused;
    choice.fused_us = 1e3 * fused, choice.separate_us = 1e3 * separate;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::out_of_memory) throw;
    return;  // no room for the kernels' scratch: it stays fused
  }
  if (!choice.fused) plan.fused.reset();
  choices_.push_back(std::move(choice));
}

void MatmulPlans::run(const Matmul& op) {
  std::unique_ptr<Plan>& plan = plans_[key_of(op)];
  if (!plan) plan = make(op, candidates_);
  if (!plan->tuned && !is_capturing()) tune(*plan, op);
  if (!op.has_epilogue()) {
    need_gemm(multiply(*plan, plan->separate, op, plan->separate.algorithm, address_of(op.c)), op);
    return;
  }
  if (plan->fused) {
    const Tensor sums = sums_for(op);
    need_gemm(multiply_fused(*plan, op, plan->fused->algorithm, address_of(op.c), sums), op);
    if (sums) compute(ops_, ops::Add{op.bias_gradient, sums, op.bias_gradient});
    return;
  }
  const Matmul gemm = ops::gemm_before_epilogue(op);
  need_gemm(multiply(*plan, plan->separate, gemm, plan->separate.algorithm, address_of(gemm.c)), gemm);
  ops::for_each_part_of_epilogue(op, [&](const auto& part) { compute(ops_, part); });
}

// The heuristic is asked for a number that stands for many; whether its answer serves this one cuBLASLt says.
void MatmulPlans::run_varying(const Matmul& op, Varying what) {
  Matmul rounded = op;
  const auto up = [](std::int64_t& n) { n = (n + kVaryingStep - 1) / kVaryingStep * kVaryingStep; };
  up(what == Varying::rows ? rounded.a.rows : rounded.a.cols);
  up(what == Varying::rows ? rounded.c.rows : rounded.b.rows);
  if (varying_.size() >= kVaryingPlans) varying_.clear();
  std::unique_ptr<Plan>& known = varying_[key_of(rounded)];
  if (!known) known = make(rounded, 1);
  Plan exact(op, tf32_);
  Algorithm algorithm = known->separate.algorithm;
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t serves =
      cublasLtMatmulAlgoCheck(handle_, exact.separate.description.get(), exact.first.get(), exact.second.get(),
                              exact.result.get(), exact.result.get(), &algorithm, &checked);
  if (serves != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > kWorkspace)
    algorithm = make(op, 1)->separate.algorithm;
  need_gemm(multiply(exact, exact.separate, op, algorithm, address_of(op.c)), op);
}

}  // namespace mbench::cuda
