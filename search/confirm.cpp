#include <algorithm>

#include "engine/base/text.h"
#include "search/parallel.h"
#include "search/search.h"

namespace mbench::search {
namespace {

constexpr std::size_t kAtOnce = 32;  // layouts that are simulated together

}  // namespace

Confirmed confirm(const Space& space, const Place& place, const SearchOptions& options, const SearchEnd& end) {
  Confirmed confirmed;
  std::map<std::string, Refused> refused;
  std::vector<Point> all;
  const bool fill = options.objective == Objective::time || options.objective == Objective::memory;
  each_layout(space, place.devices, fill, refused, [&](const Point& p) {
    if (!why_lacking(p, place.machine)) all.push_back(p);
    return true;
  });
  const Bounds bounds(place.machine);
  const CloseBounds close(place.machine, bounds);
  std::optional<Score> worst;
  if (end.best.size() == options.best) {
    const Tried& last = end.best.back();
    worst = score(options.objective, last.result.iteration_ms->mean, *last.result.peak_memory_mib, last.point.world());
  }
  std::vector<std::string> ids;
  for (const Tried& t : end.best) ids.push_back(t.result.id);
  for (std::size_t from = 0; from < all.size() && !(options.interrupted && options.interrupted()); from += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, all.size() - from);
    std::vector<Tried> tried(n);
    each_in_parallel(n, options.threads,
                     [&](std::size_t i) { tried[i] = try_layout(all[from + i], place, bounds, close); });
    confirmed.layouts += n;
    for (const Tried& t : tried) {
      const double ms = t.result.iteration_ms->mean, mib = *t.result.peak_memory_mib;
      const auto say = [&](const std::string& what) { confirmed.wrong.push_back(label_of(space, t.point) + ": " + what); };
      if (t.floor.seconds * 1e3 > ms) say(fmt::format("takes {} ms, its floor says {}", ms, t.floor.seconds * 1e3));
      if (t.floor.total_bytes() / kMiB > mib)
        say(fmt::format("takes {} MiB, its floor says {}", mib, t.floor.total_bytes() / kMiB));
      const bool asked = t.fits && *t.result.tokens_per_s >= options.rate;
      const bool among = std::find(ids.begin(), ids.end(), t.result.id) != ids.end();
      if (asked && !among && (!worst || score(options.objective, ms, mib, t.point.world()) < *worst))
        say(fmt::format("is better than the last of the best, {} ms and {} MiB", ms, mib));
    }
    if (options.progress) options.progress({0, 0, all.size(), from + n, from + n, {}});
  }
  return confirmed;
}

}  // namespace mbench::search
