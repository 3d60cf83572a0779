// The CPU's ops: f32 arithmetic on f32, bf16 or f16 storage, OpenMP threads, matrix products by CBLAS. Each
// compute() stands in the source file named after its op's header.
#pragma once
#include "engine/backend/cpu/scratch.h"

namespace mbench::cpu {

struct CpuOps {
  // Scratch counts against what `memory`'s device may hold.
  explicit CpuOps(Allocator& memory) : scratch(memory) {}
  Scratch scratch;
};

template <class Op>
void compute(CpuOps& cpu, const Op& op);

}  // namespace mbench::cpu
