#include "engine/ops/expert_ranks.h"

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::ExpertRanks& op) {
  const std::int64_t k = op.experts.shape().cols();
  parallel_rows(op.experts.shape().rows(), k, [&](std::int64_t token) {
    const std::int64_t* experts = op.experts.as<std::int64_t>() + token * k;
    std::int64_t* ranks = op.ranks.as<std::int64_t>() + token * k;
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t rank = experts[j] / op.each;
      ranks[j] = std::find(ranks, ranks + j, rank) == ranks + j ? rank : -1;
    }
  });
}

}  // namespace mbench::cpu
