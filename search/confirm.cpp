#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/text.h"
#include "search/search.h"

namespace mbench::search {
namespace {

constexpr std::size_t kAtOnce = 32;  // layouts that are simulated together

// What a layout must be that a search should have found. For the time the first of the best is out of turn: it leaves most memory free of those as fast.
class Asked {
 public:
  Asked(const SearchOptions& options, const SearchEnd& end)
      : objective_(options.objective), full_(end.best.size() == options.best) {
    if (!full_) return;
    first_ = score_of(end.best.front());
    last_ = fastest_ = first_;
    const std::size_t in_order = objective_ == Objective::time ? 1 : 0;
    for (std::size_t i = in_order; i < end.best.size(); ++i) {
      last_ = i == in_order ? score_of(end.best[i]) : std::max(last_, score_of(end.best[i]));
      fastest_ = std::min(fastest_, score_of(end.best[i]));
    }
    one_ = end.best.size() == 1;
  }

  bool is_better(const Tried& t) const {
    const Score s = score_of(t);
    if (!full_) return true;
    if (objective_ != Objective::time) return s < last_;
    if (one_) return s.first * kAsFast < first_.first;
    return s < last_ || (s.first <= kAsFast * fastest_.first && s.second < first_.second);
  }

 private:
  Score score_of(const Tried& t) const { return score(objective_, costs_of(t)); }

  Objective objective_;
  bool full_, one_ = false;
  Score first_, last_, fastest_;
};

}  // namespace

Confirmed confirm(const Space& space, const SearchTarget& place, const SearchOptions& options, const SearchEnd& end) {
  Confirmed confirmed;
  std::map<std::string, Refused> refused;
  std::vector<Point> all;
  each_layout(space, place.devices, needs_all_devices(options.objective), refused, [&](const Point& p) {
    if (!why_lacking(p, place.machine)) all.push_back(p);
    return true;
  });
  const Bounds bounds(place.machine);
  const CloseBounds close(place.machine, bounds);
  const Asked asked_for(options, end);
  std::vector<std::string> ids;
  for (const Tried& t : end.best) ids.push_back(t.result.id);
  for (std::size_t from = 0; from < all.size() && !(options.interrupted && options.interrupted()); from += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, all.size() - from);
    std::vector<Tried> tried(n);
    each_in_parallel(n, options.threads,
                     [&](std::size_t i) { tried[i] = try_layout(all[from + i], place, bounds, close); });
    confirmed.layouts += n;
    for (const Tried& t : tried) {
      const double ms = t.result.iteration_ms->mean, mib = t.needed_mib, peak = *t.result.peak_memory_mib;
      const auto say = [&](const std::string& what) {
        confirmed.wrong.push_back(label_of(space, t.point) + ": " + what);
      };
      if (t.lower_bound.seconds * 1e3 > ms)
        say(fmt::format("takes {} ms, its lower bound says {}", ms, t.lower_bound.seconds * 1e3));
      if (t.lower_bound.total_bytes() / kMiB > peak)
        say(fmt::format("takes {} MiB, its lower bound says {}", peak, t.lower_bound.total_bytes() / kMiB));
      if (const double least =
              joules_at_least(t.point, t.lower_bound.seconds, t.lower_bound.busy_joules, place.machine);
          least > costs_of(t).joules)
        say(fmt::format("takes {} J, its lower bound says {}", costs_of(t).joules, least));
      const bool asked = t.fits && *t.result.tokens_per_s >= options.rate;
      const bool among = std::find(ids.begin(), ids.end(), t.result.id) != ids.end();
      if (asked && !among && asked_for.is_better(t))
        say(fmt::format("is better than one of the best, {} ms and {} MiB", ms, mib));
    }
    if (options.progress) options.progress({0, 0, all.size(), from + n, from + n, {}});
  }
  return confirmed;
}

}  // namespace mbench::search
