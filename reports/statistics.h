// Whether two sets of samples differ, and by how much: a bootstrap interval of the ratio of medians (Efron,
// "Bootstrap methods: another look at the jackknife", 1979), the rank test of Mann and Whitney (1947), Holm's
// correction (1979). Medians and ranks, because step times have tails: one slow step must not decide. What
// none of it sees: samples of one run are treated as independent, so a clock or a neighbour that was
// different for the whole of a run looks like a change of the code. The threshold of a comparison is there
// for that.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace mbench {

struct Interval {
  double low = 0, high = 0;
};

// Of sorted samples, at least one; the mean of the middle two where their number is even.
double median_of_sorted(const std::vector<double>& sorted);

// Percentile bootstrap of median(x) / median(y). The draws depend on the numbers of samples alone, never on
// their values or on who asks first, so they are made once for each number of samples and every call gives
// the same interval.
class RatioBootstrap {
 public:
  static constexpr int kResamples = 2000;
  static constexpr double kConfidence = 0.99;
  // Both sorted, y positive.
  Interval interval(const std::vector<double>& x, const std::vector<double>& y);

 private:
  // The ranks of the two middle samples (one twice if n is odd) of each resample of n samples.
  using Middles = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  const Middles& middles(std::size_t n, std::uint32_t side);
  std::map<std::pair<std::size_t, std::uint32_t>, Middles> cache_;
  std::vector<double> ratios_;
};

// Two-sided p-value that x and y come from one distribution. Exact for up to 400 pairs without ties, else the
// normal approximation with corrections for ties and continuity.
class RankTest {
 public:
  double p_value(const std::vector<double>& x, const std::vector<double>& y);  // both sorted
  // The least p-value that n and m samples can give, however different they are.
  double least_p_value(std::size_t n, std::size_t m);

 private:
  const std::vector<double>& distribution(std::size_t n, std::size_t m);  // P(U = u), u = 0 .. n * m
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> cache_;
};

// Holm's step-down: p-values adjusted so that the chance of one false alarm among all of them is the level
// they are compared with.
std::vector<double> holm(const std::vector<double>& p_values);

}  // namespace mbench
