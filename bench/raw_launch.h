// What CUDA itself asks of the host for a launch, without any of the engine. launch_bench compares the engine's own time with this
// lower bound.
#pragma once
#include <cstdint>
#include <memory>

namespace mbench::bench {

class RawLaunches {
 public:
  virtual ~RawLaunches() = default;
  // Enqueues a kernel of one thread that does nothing.
  virtual void kernel() = 0;
  // Enqueues one bf16 GEMM of square matrices by cuBLASLt, its plan made beforehand.
  virtual void gemm() = 0;
  // Waits until all of it has run.
  virtual void wait() = 0;
};

// On a stream of its own of the current GPU; GEMMs of side x side. Null where this program was built without CUDA.
std::unique_ptr<RawLaunches> open_raw_launches(std::int64_t side);

}  // namespace mbench::bench
