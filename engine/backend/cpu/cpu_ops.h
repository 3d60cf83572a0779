// The CPU's ops: f32 arithmetic on f32, bf16 or f16 storage, and OpenMP threads. GEMMs are by CBLAS, those with bf16 operands by oneDNN
// where the CPU has bf16 instructions. Each compute() stands in the source file named after its op's header.
#pragma once
#include <memory>

#include "engine/backend/cpu/scratch.h"

namespace mbench::cpu {

class Bf16Gemms;  // bf16_gemms.h

// The arithmetic of GEMMs with bf16 operands. A device uses one of them throughout.
enum class Bf16 {
  fastest,  // native where that is faster on this CPU, else widened
  native,   // the CPU's bf16 instructions where it has them and oneDNN is built in, else widened
  widened,  // f32, on every CPU
};

struct CpuOps {
  // Scratch counts against the limit of `memory`'s device.
  CpuOps(Allocator& memory, Bf16 bf16);
  ~CpuOps();
  Scratch scratch;
  std::unique_ptr<Bf16Gemms> bf16_gemms;  // null: they are widened
};

template <class Op>
void compute(CpuOps& cpu, const Op& op);

}  // namespace mbench::cpu
