#include "engine/ops/grouped_matmul.h"

#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {

// One product after the other, each shared out among the threads. One over no rows still scales what it adds to.
template <>
void compute(CpuOps& cpu, const ops::GroupedMatmul& op) {
  for (std::int64_t e = 0; e < op.experts(); ++e) compute(cpu, op.of(e));
}

}  // namespace mbench::cpu
