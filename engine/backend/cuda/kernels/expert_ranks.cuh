// Which ranks a token visits: a thread for each chosen expert, which looks at the earlier experts of its token.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/expert_ranks.h"

namespace mbench::cuda {

struct ExpertRanksEach {
  static constexpr int kWidth = 1;
  const std::int64_t* experts;
  std::int64_t* ranks;
  std::int64_t k, each;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    std::int64_t rank = experts[i] / each;
    const std::int64_t own = rank;
    for (std::int64_t j = i / k * k; j < i; ++j)
      if (experts[j] / each == own) rank = -1;
    ranks[i] = rank;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::ExpertRanks& op) {
  launch_flat(stream, op.name, op.experts.numel(),
              ExpertRanksEach{pointer<std::int64_t>(op.experts), pointer<std::int64_t>(op.ranks),
                              op.experts.shape().cols(), op.each});
}

}  // namespace mbench::cuda
