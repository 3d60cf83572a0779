// Whether two sets of samples differ, and by how much. There is a bootstrap interval of the ratio of medians (Efron, 1979), and Holm's
// correction (1979). There is the rank test of Mann and Whitney (1947) with its estimate of the shift (Hodges and Lehmann, 1963).
// Medians and ranks are used because step times have tails: one slow step must not decide.
//
// Samples that follow one another are not independent: a slow sample is followed by slow ones. autocorrelation_time says how many of
// them are worth one independent sample, and intervals and p-values take it into account. No statistic of one run can see a clock or a
// neighbour that was different for the whole of it.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace mbench::reports {

struct Interval {
  double low = 0, high = 0;
};

// The samples are sorted, at least one. Of an even number it is the mean of the middle two.
double median_of_sorted(const std::vector<double>& sorted);
double median_of(std::vector<double> samples);  // in any order

// The z > 0 beyond which the standard normal has two tails of this probability, from 0 to 1.
double normal_deviation(double tails);

// Percentile bootstrap of median(x) / median(y). The draws depend only on the numbers of samples, never on their values or on who asks
// first. So they are made once for each number of samples, and every call gives the same interval. For more than 32,768 samples the
// middle of a resample is drawn by its own distribution.
class RatioBootstrap {
 public:
  static constexpr int kResamples = 2000;
  static constexpr double kConfidence = 0.99;
  // Both sorted, y positive. The logarithms of the interval's ends are moved away from the ratio by
  // `widening`.
  Interval interval(const std::vector<double>& x, const std::vector<double>& y, double widening = 1);

 private:
  // The ranks of the two middle samples (one twice if n is odd) of each resample of n samples.
  using Middles = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  const Middles& middles(std::size_t n, std::uint32_t side);
  std::map<std::pair<std::size_t, std::uint32_t>, Middles> cache_;
};

// Two-sided p-value that x and y come from one distribution. Exact for up to 400 pairs without ties, else the
// normal approximation with corrections for ties and continuity.
class RankTest {
 public:
  // Both sorted. `widening`: by how much dependence between samples widens the spread of the statistic.
  double p_value(const std::vector<double>& x, const std::vector<double>& y, double widening = 1);
  // The least p-value that n and m samples can give, however different they are.
  double least_p_value(std::size_t n, std::size_t m);

 private:
  const std::vector<double>& distribution(std::size_t n, std::size_t m);  // P(U = u), u = 0 .. n * m
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> cache_;
};

// How many consecutive samples are worth one independent sample: 1 + 2 * the sum of the autocorrelations of their ranks. The sum is cut
// off where pairs of neighbouring lags are no longer positive (Geyer, 1992). At least 1; in the order they were taken. More than 32,768
// samples are replaced by the means of blocks of neighbours.
double autocorrelation_time(const std::vector<double>& samples);

// The median of all ratios x[i] / y[j] (Hodges and Lehmann): the shift that belongs to the rank test. It is stable where samples have
// two states and the median jumps between them. Both sorted, y positive.
double shift_ratio(const std::vector<double>& x, const std::vector<double>& y);

// Whether the middle of differences is zero (Wilcoxon, 1945), by the normal approximation; `widening` as above. The estimate is the
// median of all means of two of them. The interval holds the means that the test does not refute at RatioBootstrap's confidence: all of
// them where so few differences refute none. At least one.
struct SignedRanks {
  double estimate = 0;
  Interval interval;
  double p_value = 1, least_p_value = 1;
};
SignedRanks signed_ranks(std::vector<double> differences, double widening);

// Holm's step-down: p-values adjusted so that the chance of one false alarm among all of them is the level
// they are compared with.
std::vector<double> holm(const std::vector<double>& p_values);

}  // namespace mbench::reports
