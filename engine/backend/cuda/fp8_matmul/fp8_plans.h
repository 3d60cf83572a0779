// FP8 GEMMs by cuBLASLt, as ops/fp8_matmul.h defines them, with scales read from the device. Forward GEMMs with one scale for each tensor
// use fast accumulation, which on Hopper keeps fewer bits; all others accumulate in f32. The heuristic's first algorithm is used. It
// depends only on the GEMM, so two runs give the same bits. A plan is made once for a GEMM's shape and types, and kept.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/device/library_memory.h"
#include "engine/ops/fp8_matmul.h"

namespace mbench::cuda {

class Fp8Plans {
 public:
  // `memory`: the device's. The workspace is charged to it with the first GEMM.
  Fp8Plans(cudaStream_t stream, Allocator& memory);
  ~Fp8Plans();
  Fp8Plans(const Fp8Plans&) = delete;
  Fp8Plans& operator=(const Fp8Plans&) = delete;
  void run(const ops::Fp8Matmul& op);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 14>;
  // Where the scales of the op's operands are.
  struct Scales {
    const void *a, *b;
  };
  static Key key_of(const ops::Fp8Matmul& op);
  Scales scales_of(const ops::Fp8Matmul& op);
  std::unique_ptr<Plan> make(const ops::Fp8Matmul& op, const Scales& scales);
  void open();

  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  LibraryMemory charged_;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace mbench::cuda
