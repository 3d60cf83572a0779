// Of many moments in order a few, so that what they show stays: the first one, and of each stretch the fullest and the last.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace mbench {

// At most `most` of them and two more. Each has an `at`, and total(moment) says how full it is.
template <class Moment, class Total>
std::vector<Moment> thinned(const std::vector<Moment>& all, std::size_t most, const Total& total) {
  if (all.size() <= most) return all;
  const double end = all.back().at - all.front().at, stretches = static_cast<double>(most) / 2;
  std::vector<Moment> kept;
  for (auto from = all.begin(); from != all.end();) {
    const auto stretch = [&](const Moment& m) { return std::floor((m.at - all.front().at) / end * stretches); };
    const auto to = std::find_if(from, all.end(), [&](const Moment& m) { return stretch(m) != stretch(*from); });
    const auto fullest =
        std::max_element(from, to, [&](const Moment& a, const Moment& b) { return total(a) < total(b); });
    kept.push_back(*fullest);
    if (fullest + 1 != to) kept.push_back(*(to - 1));
    from = to;
  }
  if (kept.front().at > all.front().at) kept.insert(kept.begin(), all.front());
  return kept;
}

}  // namespace mbench
