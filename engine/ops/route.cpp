#include "engine/ops/route.h"

#include <utility>

namespace mbench::ops {

// After a run of tokens the choice repeats.
std::vector<std::int64_t> balanced_visits(std::int64_t tokens, std::int64_t experts, std::int64_t k,
                                          std::int64_t parts) {
  const std::int64_t stride = balanced_stride(experts, k), run = experts / std::gcd(experts, k);
  std::vector<std::int64_t> visits(static_cast<std::size_t>(parts), 0), last(visits.size(), -1);
  for (std::int64_t token = 0; token < std::min(run, tokens); ++token) {
    const std::int64_t times = (tokens - token + run - 1) / run;
    for (std::int64_t j = 0; j < k; ++j) {
      const auto part = static_cast<std::size_t>((token * k + j) % experts * stride % experts / (experts / parts));
      if (std::exchange(last[part], token) != token) visits[part] += times;
    }
  }
  return visits;
}

}  // namespace mbench::ops
