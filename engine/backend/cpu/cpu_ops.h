// The CPU's ops: f32 arithmetic on f32, bf16 or f16 storage, OpenMP threads, matrix products by CBLAS, those of
// bf16 operands by oneDNN where the CPU has bf16 instructions. Each
// compute() stands in the source file named after its op's header.
#pragma once
#include "engine/backend/cpu/bf16_products.h"
#include "engine/backend/cpu/scratch.h"

namespace mbench::cpu {

struct CpuOps {
  // Scratch counts against what `memory`'s device may hold.
  CpuOps(Allocator& memory, Bf16 bf16)
      : scratch(memory), bf16_products(bf16 == Bf16::native ? open_bf16_products() : nullptr) {}
  Scratch scratch;
  std::unique_ptr<Bf16Products> bf16_products;  // null: they are widened
};

template <class Op>
void compute(CpuOps& cpu, const Op& op);

}  // namespace mbench::cpu
