// Whether step times changed. Time has noise, so the threshold t is the smallest change that must be found. The verdict says which of
// two claims the samples refute: "nothing changed", or "it changed by t or more". By r = median(new) / median(baseline) and its 99 %
// bootstrap interval the median is
//
//   same       "It changed by t" is refuted: the interval lies within (1 / (1 + t), 1 + t).
//   slower     "Nothing changed" is refuted and t is not: the interval lies above 1 and reaches 1 + t or lies beyond. The rank test
//              agrees (p < 0.01, corrected by Holm for the number of points). The shift that it estimates is at least 2/3 t.
//   faster     The same the other way round.
//
//   ambiguous  Neither is refuted: the interval holds both. Or the samples are too few: less than 5 on a side, or a drift that
//              leaves less than 8 independent ones. They are enough for a shift of 3/2 t, if all of one side lie t/2
//              beyond all of the other. So they are if the shift is three times the range of either run. Or levels last
//              within a run, and two runs may differ as much by chance (wander.h).
//
// So where the interval is narrower than t, a step that became slower by t is "slower" and one that did not change is "same". A change
// between 2/3 t and t may be called either. Samples that drift are worth fewer independent ones (autocorrelation_time), which widens
// the interval and the rank test. A state or a drift that lasts longer than the run looks like a change to any test of one run
// against another.
//
// Users pay for all steps, so the mean is judged too (mean_verdict.h), and the verdict is of both:
//
//   median \ mean   slower      faster      same        open
//   slower          slower      ambiguous   ambiguous   slower
//   faster          slower      faster      ambiguous   faster
//   same            slower      faster      same        as the slow steps say
//   ambiguous       slower      faster      ambiguous*  ambiguous
//
// * "same" if the mean is worth 20 independent samples and the medians differ by less than t. Of two states a median holds one or the
// other, while a mean holds still. The mean decides nothing where samples drift, or are too few for the rank test to say anything.
//
// No run is "faster" whose own mean, of all its steps, is longer by 2/3 t: a few stalls may cost more than the other steps save.
#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reports/gate/mean_verdict.h"
#include "reports/records/statistics.h"
#include "reports/records/two_states.h"

namespace mbench::reports {

enum class TimeVerdict { same, faster, slower, ambiguous };

// What the samples of one point say, before the correction for the number of points.
struct TimeEvidence {
  static constexpr std::size_t kLeastSamples = 5;
  static constexpr double kLeastIndependent = 8, kIndependentForMean = 20;

  double now = 0, baseline = 0;            // medians
  double ratio = 1, shift = 1;             // of medians; by Hodges and Lehmann
  double least_ratio = 1, most_ratio = 1;  // of any sample to any other
  double range = 0;  // of the run that varies more, logarithm; without a tenth of the samples on either side
  Interval interval;
  double p_value = 1, least_p_value = 1;  // least: the smallest that so many samples can give
  std::size_t samples = 0;                // on the smaller side
  const char* unit = "samples";           // what they are called
  double independent = 0;                 // how many these are worth, on the worse side
  bool drifts = false;
  // Between levels that last within a run, and up to where two runs differ by chance: logarithms (wander.h).
  double wander = 0, doubt = 0;
  std::optional<ChangeEvidence> change;  // asked for where something may have changed (two_states.h)
  std::optional<MeanEvidence> mean;      // not of turns (turns_verdict.h)
};

// Caches the draws of the bootstrap and the tables of the rank test between points.
class TimeTest {
 public:
  // Samples in the order they were taken, at least 5 on either side, positive.
  TimeEvidence weigh(const std::vector<double>& now, const std::vector<double>& baseline);
  // The same where the user paid for something else than the samples, as in a soak, whose samples are medians.
  TimeEvidence weigh(const std::vector<double>& now, const std::vector<double>& baseline,
                     const std::vector<double>& paid_now, const std::vector<double>& paid_baseline);

 private:
  RatioBootstrap bootstrap_;
  RankTest ranks_;
};

struct TimeJudgement {
  TimeVerdict verdict = TimeVerdict::same;
  std::string reason;  // of what is not plain: why ambiguous, a change below the threshold, what slow steps look like
};
// `p_value` is of the rank test, `mean_p` of the mean. Each is corrected for the number of comparisons.
TimeJudgement judge_time(const TimeEvidence& evidence, double p_value, double mean_p, double threshold);
// Without a correction.
TimeJudgement judge_time(const TimeEvidence& evidence, double threshold);

}  // namespace mbench::reports
