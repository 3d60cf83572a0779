// Whether the mean of samples changed. A user pays the sum of all steps, which includes stalls that a median does not see. The interval
// and the p-value are Student's on the logarithm of the ratio, by the delta method. Their degrees of freedom are those of Welch (1947)
// and Satterthwaite (1946). The variance of a mean is the variance of single samples over the number of independent ones that they are
// worth (statistics.h: autocorrelation_time). So samples that follow one another do not count twice.
#pragma once
#include <vector>

#include "reports/records/statistics.h"

namespace mbench::reports {

// Two-sided tail of Student's t beyond |t|, by the incomplete beta function; `freedom` need not be whole.
double student_tails(double t, double freedom);
// The t > 0 whose two-sided tail is `tails`.
double student_quantile(double tails, double freedom);

// What the mean of one side is worth.
struct MeanOf {
  double mean = 0;
  double variance = 0;  // of single samples
  double worth = 1;     // independent samples
};
// At least one sample; `tau`: consecutive samples that are worth one.
MeanOf mean_of(const std::vector<double>& samples, double tau = 1);

struct MeanRatio {
  double now = 0, baseline = 0, ratio = 1;
  Interval interval;  // of the ratio, at RatioBootstrap::kConfidence
  double p_value = 1;
  double deviations = 0;  // the logarithm of the ratio over its standard error
};
// Means above 0. Where neither side has any spread, the interval is only the ratio.
MeanRatio mean_ratio(const MeanOf& now, const MeanOf& baseline);

}  // namespace mbench::reports
