#include "engine/ops/route.h"

#include <utility>

namespace mbench::ops {

BalancedChoice BalancedChoice::of(const RouterRule& rule, std::int64_t experts, std::int64_t k) {
  BalancedChoice c{experts, k};
  if (rule.chosen_groups < rule.groups) c.groups = rule.groups, c.chosen = rule.chosen_groups;
  c.each = (k + c.chosen - 1) / c.chosen;
  c.stride = rule.local ? 1 : balanced_stride(experts / c.groups, c.each);
  return c;
}

std::int64_t BalancedChoice::run() const {
  const std::int64_t size = experts / groups, visits = groups * (size / std::gcd(size, each));
  return visits / std::gcd(visits, chosen);
}

// After a run of tokens the choice repeats.
std::vector<std::int64_t> balanced_visits(std::int64_t tokens, const BalancedChoice& choice, std::int64_t parts) {
  const std::int64_t run = choice.run(), size = choice.experts / parts;
  std::vector<std::int64_t> visits(static_cast<std::size_t>(parts), 0), last(visits.size(), -1);
  for (std::int64_t token = 0; token < std::min(run, tokens); ++token) {
    const std::int64_t times = (tokens - token + run - 1) / run;
    for (std::int64_t j = 0; j < choice.k; ++j) {
      const auto part = static_cast<std::size_t>(choice.expert(token, j) / size);
      if (std::exchange(last[part], token) != token) visits[part] += times;
    }
  }
  return visits;
}

}  // namespace mbench::ops
