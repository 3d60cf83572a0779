#include "reports/records/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr std::size_t kLeastParts = 5;
constexpr double kFalseAlarm = 1 - RatioBootstrap::kConfidence;
constexpr std::size_t kMostNamed = 4;

using Samples = std::vector<double>;

Samples sorted(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

// The median over the other ranks of the stage in each step. Found from the sorted times of all of them, since there may be
// many ranks: what a rank's own time is among them, its peers' are not.
class Stage {
 public:
  Stage(const std::vector<Samples>& by_rank, std::size_t begin, std::size_t end) : steps_(by_rank[begin].size()) {
    for (std::size_t step = 0; step < by_rank[begin].size(); ++step) {
      for (std::size_t r = begin; r < end; ++r) steps_[step].push_back(by_rank[r][step]);
      std::sort(steps_[step].begin(), steps_[step].end());
    }
  }
  Samples peers_of(const Samples& mine) const {
    Samples medians;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const Samples& all = steps_[step];
      const std::size_t own =
          static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), mine[step]) - all.begin());
      const auto peer = [&](std::size_t i) { return all[i < own ? i : i + 1]; };
      const std::size_t peers = all.size() - 1;
      medians.push_back(0.5 * (peer((peers - 1) / 2) + peer(peers / 2)));
    }
    return medians;
  }

 private:
  std::vector<Samples> steps_;
};

// p that a rank is as its peers are; 1 where its ratio is not above the threshold beyond doubt.
double doubt(const Samples& mine, const Samples& peers) {
  if (mine.size() < kLeastParts) return 1;
  const Samples x = sorted(mine), y = sorted(peers);
  if (!(y.front() > 0) || median_of_sorted(x) <= (1 + kStraggles) * median_of_sorted(y)) return 1;
  const double widening = std::sqrt(0.5 * (autocorrelation_time(mine) + autocorrelation_time(peers)));
  RatioBootstrap bootstrap;
  if (!(bootstrap.interval(x, y, widening).low > 1 + kStraggles)) return 1;
  RankTest ranks;
  return ranks.p_value(x, y, widening);
}

}  // namespace

std::vector<RankTimes> rank_times(const PointResult& result) {
  std::vector<Samples> by_rank;
  for (const StepParts& rank : result.compute_ms_by_rank) by_rank.push_back(rank.parts);
  std::vector<RankTimes> times(by_rank.size());
  if (times.empty() || by_rank.front().empty()) return {};
  for (const Samples& samples : by_rank)  // a file that was cut or put together by hand
    if (samples.size() != by_rank.front().size()) return {};
  // Stages are furthest apart: each is a run of neighbouring ranks.
  const std::size_t stages = static_cast<std::size_t>(std::max<std::int64_t>(1, result.point.pp));
  if (by_rank.size() % stages != 0) return {};
  const std::size_t width = by_rank.size() / stages;
  std::vector<double> doubts(by_rank.size(), 1);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const Stage ranks(by_rank, stage * width, (stage + 1) * width);
    for (std::size_t r = stage * width; r < (stage + 1) * width; ++r) {
      times[r].stage = static_cast<std::int64_t>(stage);
      times[r].compute_ms = result.compute_ms_by_rank[r].median;
      if (width == 1) continue;
      const Samples peers = ranks.peers_of(by_rank[r]);
      times[r].against_peers = median_of_sorted(sorted(by_rank[r])) / median_of_sorted(sorted(peers));
      if (!result.expert_imbalance) doubts[r] = doubt(by_rank[r], peers);
    }
  }
  const std::vector<double> corrected = holm(doubts);
  for (std::size_t r = 0; r < times.size(); ++r) times[r].straggler = corrected[r] < kFalseAlarm;
  return times;
}

std::string straggler_text(const PointResult& result) {
  std::string text;
  std::size_t named = 0, found = 0;
  const std::vector<RankTimes> times = rank_times(result);
  for (std::size_t r = 0; r < times.size(); ++r) {
    if (!times[r].straggler || ++found > kMostNamed) continue;
    text += fmt::format("{}{} computes {:.0f} % longer", named++ ? ", " : "",
                        rank_text(static_cast<std::int64_t>(r), result.hosts), (times[r].against_peers - 1) * 100);
  }
  if (text.empty()) return "";
  const std::string more = found > named ? fmt::format(" and {} more", found - named) : "";
  return fmt::format("{}: {}{} than the other ranks of its stage", found > 1 ? "stragglers" : "straggler", text, more);
}

}  // namespace mbench::reports
