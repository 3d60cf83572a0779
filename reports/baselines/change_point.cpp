#include "reports/baselines/change_point.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/philox.h"
#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr std::uint64_t kSeed = 20240301;
constexpr int kPermutations = 2000;
constexpr double kSignificance = 0.05;

using Values = std::vector<double>;

struct Split {
  std::size_t at = 0;
  double statistic = 0;
};

// The spread of the whole series is the same for every permutation and can be left out.
Split best_split(const Values& values) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  Split best;
  double sum = 0;
  for (std::size_t k = 1; k < values.size(); ++k) {
    sum += values[k - 1] - mean;
    const double before = static_cast<double>(k);
    const double statistic = std::abs(sum) / std::sqrt(before * (n - before) / n);
    if (statistic > best.statistic) best = {k, statistic};
  }
  return best;
}

double permutation_p(Values values, double reached) {
  const RngKey key{kSeed, 0, static_cast<std::uint32_t>(values.size())};
  std::uint64_t block = 0;
  int as_large = 0;
  for (int run = 0; run < kPermutations; ++run) {
    for (std::size_t i = values.size() - 1; i > 0; --i) {
      const auto words = Philox::block(key, block++);
      std::swap(values[i], values[(std::uint64_t{words[0]} * (i + 1)) >> 32]);
    }
    as_large += best_split(values).statistic >= reached * (1 - 1e-9);
  }
  return (1.0 + as_large) / (1.0 + kPermutations);
}

double median_between(const Values& values, std::size_t begin, std::size_t end) {
  Values part(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end));
  std::sort(part.begin(), part.end());
  return median_of_sorted(part);
}

void search(const Values& values, std::size_t begin, std::size_t end, std::vector<ChangePoint>& found) {
  if (end - begin < kLeastForChangePoint) return;
  const Values part(values.begin() + static_cast<std::ptrdiff_t>(begin),
                    values.begin() + static_cast<std::ptrdiff_t>(end));
  const Split split = best_split(part);
  const double scale = *std::max_element(part.begin(), part.end());
  if (split.statistic <= 1e-12 * std::abs(scale)) return;  // a level without noise
  const double p = permutation_p(part, split.statistic);
  if (p >= kSignificance) return;
  const std::size_t at = begin + split.at;
  search(values, begin, at, found);
  found.push_back({at, p, 0, 0});
  search(values, at, end, found);
}

void fill_levels(const Values& values, std::vector<ChangePoint>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].before = median_between(values, i ? points[i - 1].at : 0, points[i].at);
    points[i].after = median_between(values, points[i].at, i + 1 < points.size() ? points[i + 1].at : values.size());
  }
}

}  // namespace

std::vector<ChangePoint> find_change_points(const Values& values) {
  std::vector<ChangePoint> found;
  search(values, 0, values.size(), found);
  fill_levels(values, found);
  return found;
}

std::vector<ChangePoint> find_exact_changes(const Values& values) {
  std::vector<ChangePoint> found;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] != values[i - 1]) found.push_back({i, 0, 0, 0});
  fill_levels(values, found);
  return found;
}

}  // namespace mbench::reports
