// Whether the total time of a run changed: the mean step, in addition to the median that time_verdict.h judges. A median does not see
// that every fourth step takes three times as long; a user pays for it.
//
// The claims are those of time_verdict.h, but about r = mean(new) / mean(baseline) and its 99 % interval (mean_ratio.h). "same" refutes
// a change by the threshold t. "slower" and "faster" refute "nothing changed", reach t, and are 2/3 t at least.
//
// What only a mean says is believed at p < 0.007 where slow steps recur in one run: three episodes, more than in the other. Elsewhere
// it takes p < 0.002. So two tests of one pair do not raise twice the false alarms. Where slow steps are strictly periodic
// (slow_steps.h) their spread is no noise: what varies is the rest.
//
// One spike makes a mean's interval so wide that it decides nothing. So the slow steps are weighed separately where the interval is
// open and the other steps are the same:
//
//   at most one slow step in either run   a spike: reported, and "same".
//   more                                  "ambiguous", with the pattern and how many samples would decide, also where they are one
//                                         episode. It is "same" only where both runs have them and they cost less than t/3 more.
//
// Where slow steps recur in the new run, do not in the baseline, and cost 2/3 t or more, no interval makes them "same".
//
// First steps that are slower than all others are a warm-up: left out of the mean, at most a tenth. But no run is "same" whose own
// mean, of all its steps, is off by 3/2 t: a stall that comes once a run looks like a spike.
#pragma once
#include <string>
#include <vector>

#include "reports/records/mean_ratio.h"
#include "reports/records/slow_steps.h"

namespace mbench::reports {

struct MeanEvidence {
  static constexpr double kRecurringLevel = 0.007, kLevel = 0.002;

  double total = 1;  // the ratio of the means of all samples
  MeanRatio all;     // without warm-up
  MeanRatio body;    // without slow steps
  SlowSteps now, baseline;
  std::string now_pattern, baseline_pattern;  // pattern.h; empty where neither run needs one

  bool recurs(bool in_now) const;  // three episodes or more in one run, and more than in the other
};

// Positive samples in the order they were taken. `tau`: of their ranks (statistics.h), `doubted` the same where it is beyond doubt.
struct TimedRun {
  const std::vector<double>& samples;
  double tau = 1, doubted = 1;
};
MeanEvidence weigh_means(const TimedRun& now, const TimedRun& baseline);

enum class MeanVerdict { same, slower, faster, open };
// `p_value`: corrected for the number of comparisons. Where `trusted` is false, as where samples drift, no change is reported.
MeanVerdict judge_mean(const MeanEvidence& evidence, double p_value, double threshold, bool trusted);

// Where neither the medians nor the means say that anything changed.
struct SlowJudgement {
  bool ambiguous = false;
  std::string reason;
};
SlowJudgement judge_slow_steps(const MeanEvidence& evidence, double threshold);

// "every 4th step at 3.0x, none in the baseline"; empty where the runs look alike.
std::string difference_in_pattern(const MeanEvidence& evidence);

}  // namespace mbench::reports
