#include "engine/ops/attention_mask.h"

#include <cstring>

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::AttentionMask& op) {
  const std::int64_t batch = op.mask.shape()[0], queries = op.mask.shape()[1], keys = op.mask.shape()[2];
  parallel_rows(batch * queries, keys, [&](std::int64_t row) {
    std::uint8_t* hidden = op.mask.as<std::uint8_t>() + row * keys;
    if (op.keep) {
      const std::uint8_t* keep = op.keep.as<std::uint8_t>() + row / queries * keys;
#pragma omp simd
      for (std::int64_t k = 0; k < keys; ++k) hidden[k] = keep[k] == 0 ? 1 : 0;
    } else {
      const std::int64_t visible = std::min(keys, row % queries + 1);
      std::memset(hidden, 0, static_cast<std::size_t>(visible));
      std::memset(hidden + visible, 1, static_cast<std::size_t>(keys - visible));
    }
    if (!op.bounds) return;
    const std::int64_t* bounds = op.bounds.as<std::int64_t>() + row % queries;
    std::memset(hidden, 1, static_cast<std::size_t>(bounds[0]));
    std::memset(hidden + bounds[queries], 1, static_cast<std::size_t>(keys - bounds[queries]));
  });
}

}  // namespace mbench::cpu
