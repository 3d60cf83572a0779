#include "engine/ops/route.h"

#include <algorithm>
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

namespace {

// The share of all choices of k out of n that leave out `none` of them.
double left_out(std::int64_t n, std::int64_t k, std::int64_t none) {
  double share = 1;
  for (std::int64_t i = 0; i < none; ++i)
    share *= std::max(0.0, static_cast<double>(n - k - i) / static_cast<double>(n - i));
  return share;
}

// Of k out of n.
double choices(std::int64_t n, std::int64_t k) {
  double all = 1;
  for (std::int64_t i = 1; i <= k; ++i) all *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return all;
}

}  // namespace

double drawn_visits(const BalancedChoice& c, std::int64_t parts) {
  const std::int64_t size = c.experts / c.groups, part = c.experts / parts, drawn_from = c.chosen * size;
  if (part <= size) {
    const double chosen = static_cast<double>(c.chosen) / static_cast<double>(c.groups);
    return chosen * (1 - left_out(drawn_from, c.k, part));
  }
  // A part has several groups, of which some are chosen.
  const std::int64_t groups = part / size, others = c.groups - groups;
  double none = 0;
  for (std::int64_t chosen = std::max<std::int64_t>(0, c.chosen - others); chosen <= std::min(groups, c.chosen);
       ++chosen)
    none += choices(groups, chosen) * choices(others, c.chosen - chosen) / choices(c.groups, c.chosen) *
            left_out(drawn_from, c.k, chosen * size);
  return 1 - none;
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
