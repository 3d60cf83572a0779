// Where a series of medians over time changed its level. The statistic is a cumulative sum: the largest difference between the means of
// both sides over all splits, in units of its spread. It is compared with the same of the shuffled series: the p-value is the share of
// 2,000 permutations that reach it. A split with p below 5 % is a change point; each side is then searched for more. This assumes that
// without a change the order of the values would not matter. Short series cannot show much: fewer than 6 values none at all.
#pragma once
#include <cstddef>
#include <vector>

namespace mbench::reports {

struct ChangePoint {
  std::size_t at = 0;            // the first value of the new level
  double p_value = 1;            // 0 where the values have no noise
  double before = 0, after = 0;  // medians of the levels on either side
};

inline constexpr std::size_t kLeastForChangePoint = 6;

std::vector<ChangePoint> find_change_points(const std::vector<double>& values);

// For values without noise, such as memory: every change.
std::vector<ChangePoint> find_exact_changes(const std::vector<double>& values);

}  // namespace mbench::reports
