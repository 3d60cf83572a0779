// GEMMs and their epilogues by cuBLASLt. A plan is made once for a GEMM's shape, strides, types, alignment and epilogue, and kept.
//
// The algorithm: candidates are the first ones of cuBLASLt's heuristic that give exactly the bits of its first one on the operands at hand.
// They are timed, and the fastest is kept. The heuristic's first depends only on the GEMM. So timing decides only how long a GEMM takes,
// never its result: two runs give the same bits.
//
// The epilogue: it runs inside the GEMM's kernel where cuBLASLt has one for the shape and types. Otherwise our own kernels (ops/epilogue.h)
// follow the GEMM. It is the same op, rounded where the op's header says. For GEMMs that are not small, both ways are timed once for each
// shape, before any step is a sample.
//
// The two ways round differently. So only a difference beyond the noise of timing counts (kClearly), small GEMMs stay fused, and the choice
// is kept for the record (choices()).
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/cuda/matmul/fingerprint.h"
#include "engine/backend/cuda/matmul/matmul_description.h"
#include "engine/base/gemm_choice.h"
#include "engine/device/library_memory.h"
#include "engine/ops/matmul.h"

namespace mbench::cuda {

struct CudaOps;  // device/cuda_ops.h

class MatmulPlans {
 public:
  // `ops`: our kernels, on the same stream, and workspace for the length of a call. `memory`: the device's, to which cuBLASLt's workspace
  // is charged. `tf32`: f32 operands are rounded to TF32, for the tensor cores. `candidates`: how many algorithms to measure for a shape.
  // They are measured once `idle` has waited for the stream to be idle. 1 takes the heuristic's first without timing.
  MatmulPlans(cudaStream_t stream, CudaOps& ops, Allocator& memory, bool tf32, std::function<void()> idle,
              int candidates = 8);
  ~MatmulPlans();
  MatmulPlans(const MatmulPlans&) = delete;
  MatmulPlans& operator=(const MatmulPlans&) = delete;
  // A GEMM over at least one term.
  void run(const ops::Matmul& op);
  // The same without an epilogue, for a GEMM whose rows (m) or terms (k) depend on the data and change in every step. Timing would take
  // longer than the GEMMs. It takes the heuristic's first for the number rounded up, which also depends only on the GEMM. It keeps a
  // bounded number of plans.
  enum class Varying { rows, terms };
  void run_varying(const ops::Matmul& op, Varying what);
  const std::vector<GemmChoice>& choices() const { return choices_; }

 private:
  struct Variant;
  struct Plan;
  struct TuningOutput;
  using Algorithm = cublasLtMatmulAlgo_t;
  using Key = std::array<std::int64_t, 21>;
  static Key key_of(const ops::Matmul& op);
  // With at most `most` algorithms each.
  std::unique_ptr<Plan> make(const ops::Matmul& op, int most);
  std::vector<Algorithm> heuristic(Plan& plan, Variant& variant, const ops::Matmul& op, int most,
                                   cublasStatus_t& status);
  bool is_capturing() const;
  void tune(Plan& plan, const ops::Matmul& op);
  bool tune_separate(Plan& plan, const ops::Matmul& op, const TuningOutput& output);
  void choose_epilogue(Plan& plan, const ops::Matmul& op, const TuningOutput& output, const Tensor& sums);
  template <class Attempt, class Print>
  bool pick(Variant& variant, double elements, const Attempt& attempt, const Print& print);
  template <class Work>
  float time(const Work& work);
  cublasStatus_t multiply(Plan& plan, Variant& variant, const ops::Matmul& op, const Algorithm& algorithm,
                          std::byte* to);
  cublasStatus_t multiply_fused(Plan& plan, const ops::Matmul& op, const Algorithm& algorithm, std::byte* to,
                                const Tensor& bias_gradient);
  Tensor sums_for(const ops::Matmul& op);

  cudaStream_t stream_;
  CudaOps& ops_;
  Allocator& memory_;
  bool tf32_;
  std::function<void()> idle_;
  int candidates_;
  Fingerprints fingerprints_;
  cublasLtHandle_t handle_ = nullptr;
  LibraryMemory charged_;
  void* workspace_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_, varying_;
  std::vector<GemmChoice> choices_;
};

}  // namespace mbench::cuda
