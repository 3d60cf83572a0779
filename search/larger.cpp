#include "search/larger.h"

#include <algorithm>

namespace mbench::search {

void Larger::remember(const Candidate& c) {
  const auto undercuts = [](const Candidate& a, const Candidate& b) {
    return a.lower_bound.seconds <= b.lower_bound.seconds && a.mib() <= b.mib();
  };
  if (std::any_of(bounded_.begin(), bounded_.end(), [&](const Candidate& a) { return undercuts(a, c); })) return;
  std::erase_if(bounded_, [&](const Candidate& a) { return undercuts(c, a); });
  bounded_.push_back(c);
}

std::optional<Tried> Larger::find(double best_ms, const SearchTarget& place, const std::function<bool()>& stopped) {
  std::erase_if(bounded_, [&](const Candidate& c) { return c.lower_bound.seconds * 1e3 >= best_ms; });
  std::sort(bounded_.begin(), bounded_.end(), [](const Candidate& a, const Candidate& b) { return a.mib() < b.mib(); });
  std::optional<Tried> least;
  const auto take = [&](const Tried& t) {
    if (t.result.iteration_ms->mean < best_ms && (!least || t.needed_mib < least->needed_mib)) least = t;
  };
  for (const Tried& t : tried_) take(t);
  constexpr std::size_t kMost = 16;  // each is a simulation
  for (std::size_t i = 0; i < std::min(bounded_.size(), kMost) && !stopped(); ++i) {
    if (least && least->needed_mib <= bounded_[i].mib()) break;
    Tried t = simulated(bounded_[i].point(), place, false);
    t.lower_bound = bounded_[i].lower_bound;
    if (t.result.iteration_ms) take(t);
  }
  return least;
}

}  // namespace mbench::search
