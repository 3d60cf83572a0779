#include "reports/gate/time_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/gate/pattern.h"
#include "reports/records/wander.h"

namespace mbench::reports {
namespace {

constexpr double kLevel = 1 - RatioBootstrap::kConfidence;
// Independent samples rarely look as dependent as this (3 % of runs of 30), and such a run is treated as one
// that drifts.
constexpr double kDriftTime = 2.5;
constexpr double kLeastShift = 2.0 / 3, kNoDrift = 3.0 / 2;  // of the threshold
constexpr double kOwnRanges = 3;    // what drifts by d within a run differs between two by several times d only rarely
constexpr double kMoreSamples = 2;  // times as many show states that last half a run
constexpr double kLikelier = 2.3;   // ten times, as a logarithm
constexpr double kPatience = 10;    // so many times the samples nobody takes: less noise is cheaper

std::string samples_text(const TimeEvidence& e, double need) {
  const double samples = static_cast<double>(e.samples);
  need = std::ceil(std::max(need, samples + 5) / 10) * 10;
  if (need > 1000 && need > kPatience * samples)
    return fmt::format("; it would take about {:.0f} {}, or a quieter machine", need, e.unit);
  return fmt::format("; about {:.0f} {} would decide", need, e.unit);
}

// How many samples would make the interval narrower than the threshold, so that it cannot hold both claims.
std::string advice(const TimeEvidence& e, double threshold) {
  const double width = std::log(e.interval.high / e.interval.low), wanted = std::log1p(threshold);
  if (!(wanted > 0) || !std::isfinite(width)) return "";
  const double need = static_cast<double>(e.samples) * std::pow(width / wanted, 2);
  return need > 1e5 ? "" : samples_text(e, need);
}

// How many would give the rank test a p-value below its level, if the difference stays as it is.
std::string ranks_advice(const TimeEvidence& e, double p_value) {
  const double reached = normal_deviation(p_value), wanted = normal_deviation(kLevel);
  if (!(reached > 0)) return "";
  const double need = static_cast<double>(e.samples) * std::pow(wanted / reached, 2);
  return need > 1e5 ? "" : samples_text(e, need);
}

// How many would allow such a p-value at all: the least is 2 n! n! / (2n)!.
std::string points_advice(const TimeEvidence& e, double correction) {
  double n = 1, least = 1;
  for (; n < 1000 && least * correction >= kLevel; ++n) least *= (n + 1) / (4 * n + 2);
  return samples_text(e, n);
}

std::string drift_text(const TimeEvidence& e) {
  const double need = static_cast<double>(e.samples) * TimeEvidence::kLeastIndependent / std::max(e.independent, 1.0);
  return fmt::format(
      "the {} drift: {} are worth {:.1f} independent ones, need {}; about {:.0f} {} have them if they drift no longer",
      e.unit, e.samples, e.independent, TimeEvidence::kLeastIndependent, std::ceil(need / 10) * 10, e.unit);
}

// How far apart the samples of a run lie, but for a tenth on either side: stalls and spikes are no drift.
double range_of_sorted(const std::vector<double>& samples) {
  const std::size_t outer = samples.size() / 10;
  return std::log(samples[samples.size() - 1 - outer] / samples[outer]);
}

// A change so large that no drift explains it, however few samples a drifting run is worth.
bool outgrows_drift(const TimeEvidence& e, double threshold) {
  const double shift = std::abs(std::log(e.shift));
  if (shift < kNoDrift * std::log1p(threshold)) return false;
  const double half = std::sqrt(1 + threshold);
  const bool separate = e.shift > 1 ? e.least_ratio > half : e.most_ratio < 1 / half;
  return separate || shift >= kOwnRanges * e.range;
}

}  // namespace

TimeEvidence TimeTest::weigh(const std::vector<double>& now, const std::vector<double>& baseline) {
  return weigh(now, baseline, now, baseline);
}

TimeEvidence TimeTest::weigh(const std::vector<double>& now, const std::vector<double>& baseline,
                             const std::vector<double>& paid_now, const std::vector<double>& paid_baseline) {
  TimeEvidence e;
  const double tau_now = autocorrelation_time(now), tau_base = autocorrelation_time(baseline);
  const auto worth = [](const std::vector<double>& samples, double tau) {
    return static_cast<double>(samples.size()) / tau;
  };
  e.samples = std::min(now.size(), baseline.size());
  e.independent = std::min(worth(now, tau_now), worth(baseline, tau_base));
  e.drifts = std::max(tau_now, tau_base) > kDriftTime;
  // The interval is widened only where the drift is beyond doubt, the rank test always: it decides about
  // alarms.
  const auto doubted = [](double tau) { return tau > kDriftTime ? tau : 1; };
  const double interval_widening = std::sqrt(0.5 * (doubted(tau_now) + doubted(tau_base)));
  const double rank_widening = std::sqrt(0.5 * (tau_now + tau_base));

  std::vector<double> x = now, y = baseline;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  e.now = median_of_sorted(x);
  e.baseline = median_of_sorted(y);
  e.ratio = e.now / e.baseline;
  e.least_ratio = x.front() / y.back();
  e.most_ratio = x.back() / y.front();
  e.range = std::max(range_of_sorted(x), range_of_sorted(y));
  e.interval = bootstrap_.interval(x, y, interval_widening);
  e.p_value = ranks_.p_value(x, y, rank_widening);
  e.least_p_value = ranks_.least_p_value(x.size(), y.size());
  // Needed only where something may have changed.
  e.shift = e.interval.low > 1 || e.interval.high < 1 ? shift_ratio(x, y) : e.ratio;
  e.mean = weigh_means({paid_now, tau_now, doubted(tau_now)}, {paid_baseline, tau_base, doubted(tau_base)});
  const Wanders wanders = wanders_of(paid_now, e.mean->now, paid_baseline, e.mean->baseline);
  e.wander = std::max(wanders.one.by, wanders.other.by);
  e.doubt = doubt_of(wanders.one, wanders.other);
  // Needed only where something may have changed.
  if (e.interval.low > 1 || e.interval.high < 1 || e.mean->all.p_value < kLevel)
    e.change = evidence_of_change(paid_now, paid_baseline);
  return e;
}

namespace {

// Whether two states that both runs visit explain them nearly as well as a change.
bool may_be_states(const TimeEvidence& e) {
  return e.change && e.change->log < kLikelier;
}

// Whether levels that last make two runs differ as much by chance. Of two states a median holds one or the other, so the means are
// held against it.
bool wanders(const TimeEvidence& e) {
  return e.doubt > 0 && std::abs(std::log(e.mean->all.ratio)) < e.doubt;
}

// Whether a shift of all steps is not to be believed. Where neither run has levels of its own, what both together show decides.
bool is_doubtful(const TimeEvidence& e) {
  if (may_be_states(e)) return true;
  return !(e.change && e.change->flat) && wanders(e);
}

std::string doubt_text(const TimeEvidence& e) {
  const double n = static_cast<double>(e.samples);
  if (may_be_states(e))
    return fmt::format(
        "two states that both runs visit would look the same, since some {} of one lie at the level of the other; "
        "about "
        "{:.0f} {} would decide",
        e.unit, std::ceil(kMoreSamples * n / 10) * 10, e.unit);
  const double apart = std::max(std::abs(std::log(e.mean->all.ratio)), 0.1 * e.doubt);
  const double need = std::max(n * std::pow(e.doubt / apart, 2), n + 10);
  return fmt::format(
      "levels that last differ by {:.1f} % within a run, so that two runs may differ as much by chance; about {:.0f} "
      "{} "
      "would decide",
      std::expm1(e.wander) * 100, std::ceil(need / 10) * 10, e.unit);
}

TimeJudgement judge_median(const TimeEvidence& e, double p_value, double threshold) {
  const double high = 1 + threshold, low = 1 / high;
  const bool reaches_up = e.interval.high >= high, reaches_down = e.interval.low <= low;
  const bool above = e.interval.low > 1, below = e.interval.high < 1;
  const std::string drift = drift_text(e);
  if (!reaches_up && !reaches_down) {
    if (e.independent < static_cast<double>(TimeEvidence::kLeastSamples) &&
        !(e.most_ratio < high && e.least_ratio > low))
      return {TimeVerdict::ambiguous, drift};
    if ((above || below) && p_value < kLevel)
      return {TimeVerdict::same,
              fmt::format("{} by less than the threshold of {:.4g} %", above ? "slower" : "faster", threshold * 100)};
    return {TimeVerdict::same, ""};
  }
  if (!(reaches_up && above) && !(reaches_down && below))
    return {TimeVerdict::ambiguous, "the interval holds both no change and the threshold" + advice(e, threshold)};
  // The correction multiplies; where even the least possible p-value would not pass, more samples are needed.
  const double correction = e.p_value > 0 ? p_value / e.p_value : 1;
  if (p_value >= kLevel && e.least_p_value * correction >= kLevel)
    return {TimeVerdict::ambiguous, "too few samples for so many points" + points_advice(e, correction)};
  if (e.drifts && e.independent < TimeEvidence::kLeastIndependent && !outgrows_drift(e, threshold))
    return {TimeVerdict::ambiguous, drift};
  if (is_doubtful(e)) return {TimeVerdict::ambiguous, doubt_text(e)};
  if (p_value >= kLevel)
    return {TimeVerdict::ambiguous,
            fmt::format("the rank test does not confirm it, p = {:.2g}", p_value) + ranks_advice(e, p_value)};
  const double shift = above ? e.shift : 1 / e.shift;
  if (shift < 1 + kLeastShift * threshold)
    return {TimeVerdict::ambiguous,
            "a change, but whether it is as large as the threshold is open" + advice(e, threshold)};
  return {above ? TimeVerdict::slower : TimeVerdict::faster, ""};
}

std::string signed_percent(double ratio) {
  return fmt::format("{:+.1f} %", (ratio - 1) * 100);
}

std::string joined(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "; " + second;
}

// The median and the mean, or the mean of all steps, do not go the same way.
TimeJudgement in_conflict(const TimeEvidence& e, double mean_ratio) {
  return {TimeVerdict::ambiguous,
          joined(fmt::format("the median step is {}, the mean {}: steps of one kind became slower, others faster",
                             signed_percent(e.ratio), signed_percent(mean_ratio)),
                 difference_in_pattern(*e.mean))};
}

// Where the medians are the same.
TimeJudgement judge_same(TimeJudgement median, const MeanEvidence& mean, double threshold) {
  const SlowJudgement slow = judge_slow_steps(mean, threshold);
  return {slow.ambiguous ? TimeVerdict::ambiguous : TimeVerdict::same, joined(median.reason, slow.reason)};
}

TimeJudgement judge_both(const TimeEvidence& e, double p_value, double mean_p, double threshold) {
  TimeJudgement median = judge_median(e, p_value, threshold);
  const double correction = e.p_value > 0 ? p_value / e.p_value : 1;
  const bool enough = e.least_p_value * correction < kLevel;
  const bool drifts = e.drifts && e.independent < TimeEvidence::kLeastIndependent;
  // Slow steps that recur in one run alone are no state of both, where the other steps are alike.
  const bool alike = e.interval.low <= 1 && e.interval.high >= 1;
  const bool doubtful = alike && e.mean->recurs(e.mean->all.ratio > 1) ? wanders(e) : is_doubtful(e);
  const MeanVerdict mean = judge_mean(*e.mean, mean_p, threshold, enough && !drifts && !doubtful);
  const std::string pattern = difference_in_pattern(*e.mean);
  const bool mean_decides = mean == MeanVerdict::slower || mean == MeanVerdict::faster;
  const TimeVerdict by_mean = mean == MeanVerdict::slower ? TimeVerdict::slower : TimeVerdict::faster;
  switch (median.verdict) {
    case TimeVerdict::slower:
    case TimeVerdict::faster:
      if (mean == MeanVerdict::slower && median.verdict == TimeVerdict::faster)
        return {TimeVerdict::slower,
                joined(pattern, fmt::format("the mean step; the median is {}", signed_percent(e.ratio)))};
      if (mean == MeanVerdict::same || (mean_decides && by_mean != median.verdict))
        return in_conflict(e, e.mean->all.ratio);
      return {median.verdict, joined(median.reason, pattern)};
    case TimeVerdict::same:
      if (mean_decides)
        return {by_mean, joined(pattern, fmt::format("the mean step; the median is {}", signed_percent(e.ratio)))};
      return judge_same(std::move(median), *e.mean, threshold);
    case TimeVerdict::ambiguous:
      if (mean_decides) return {by_mean, joined(pattern, "the mean step; the median does not decide")};
      if (mean == MeanVerdict::same && enough && e.independent >= TimeEvidence::kIndependentForMean &&
          std::abs(std::log(e.ratio)) < std::log1p(threshold))
        return judge_same({TimeVerdict::same, "by the mean step; the median does not decide"}, *e.mean, threshold);
      return {TimeVerdict::ambiguous, joined(pattern, median.reason)};
  }
  return median;
}

}  // namespace

TimeJudgement judge_time(const TimeEvidence& e, double p_value, double mean_p, double threshold) {
  if (!e.mean) return judge_median(e, p_value, threshold);
  const TimeJudgement judged = judge_both(e, p_value, mean_p, threshold);
  const bool paid_more = e.mean->total >= 1 + kLeastShift * threshold;
  return judged.verdict == TimeVerdict::faster && paid_more ? in_conflict(e, e.mean->total) : judged;
}

TimeJudgement judge_time(const TimeEvidence& e, double threshold) {
  return judge_time(e, e.p_value, e.mean ? e.mean->all.p_value : 1, threshold);
}

}  // namespace mbench::reports
