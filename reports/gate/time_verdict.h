// Whether step times changed. Time has noise, so the threshold t is read as the smallest change that must be
// found, and the verdict says which of two claims the samples refute: "nothing changed", or "it changed by t
// or more". With r = median(new) / median(baseline) and its 99 % bootstrap interval:
//   same       "it changed by t" is refuted: the interval lies within (1 / (1 + t), 1 + t)
//   slower     "nothing changed" is refuted and t is not: the interval lies above 1 and reaches 1 + t or lies
//              beyond, the rank test agrees (p < 0.01, corrected by Holm for the number of points), and the
//              shift that it estimates is at least 2/3 t
//   faster     the same the other way round
//   ambiguous  neither is refuted (the interval holds both), or the samples cannot tell: fewer than 5 on a
//              side, or a drift that leaves fewer than 8 independent ones, unless every sample of one side
//              lies t/2 beyond every one of the other
// So where the interval is narrower than t, a step that became slower by t is "slower" and one that did not
// change is "same"; a change between 2/3 t and t may be called either. Samples that drift are worth fewer
// independent ones (autocorrelation_time), which widens the interval and the rank test. A drift slower than
// the whole run cannot be told from a change by any test of one run against another.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/records/statistics.h"

namespace mbench::reports {

enum class TimeVerdict { same, faster, slower, ambiguous };

// What the samples of one point say, before the correction for the number of points.
struct TimeEvidence {
  static constexpr std::size_t kLeastSamples = 5;
  static constexpr double kLeastIndependent = 8;

  double now = 0, baseline = 0;            // medians
  double ratio = 1, shift = 1;             // of medians; by Hodges and Lehmann
  double least_ratio = 1, most_ratio = 1;  // of any sample to any other
  Interval interval;
  double p_value = 1, least_p_value = 1;  // least: the smallest that so many samples can give
  std::size_t samples = 0;                // on the smaller side
  const char* unit = "samples";           // what they are called
  double independent = 0;                 // how many these are worth, on the worse side
  bool drifts = false;
};

// Caches the draws of the bootstrap and the tables of the rank test between points.
class TimeTest {
 public:
  // Samples in the order they were taken, at least 5 on either side, positive.
  TimeEvidence weigh(const std::vector<double>& now, const std::vector<double>& baseline);

 private:
  RatioBootstrap bootstrap_;
  RankTest ranks_;
};

struct TimeJudgement {
  TimeVerdict verdict = TimeVerdict::same;
  std::string reason;  // of what is not plain: why ambiguous, or a change below the threshold
};
// `p_value`: corrected for the number of comparisons.
TimeJudgement judge_time(const TimeEvidence& evidence, double p_value, double threshold);

}  // namespace mbench::reports
