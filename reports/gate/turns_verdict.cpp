#include "reports/gate/turns_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/point/result.h"
#include "reports/gate/pattern.h"
#include "reports/records/number_text.h"

namespace mbench::reports {
namespace {

// As few would not give the p-value that a verdict needs.
constexpr std::size_t kLeastPairs = 10;

using Series = std::vector<double>;

// The mean step of each: a stall within a turn is paid.
Series means_of_turns(const Series& samples, std::size_t steps) {
  Series means;
  for (std::size_t i = 0; i + steps <= samples.size(); i += steps) {
    double sum = 0;
    for (std::size_t k = i; k < i + steps; ++k) sum += samples[k];
    means.push_back(sum / static_cast<double>(steps));
  }
  return means;
}

// Logarithms of new over old, turn by turn; where one has more turns than the other these have no partner.
Series pairs_of(const Series& now, const Series& base, std::int64_t steps) {
  const Series x = means_of_turns(now, static_cast<std::size_t>(steps)),
               y = means_of_turns(base, static_cast<std::size_t>(steps));
  Series pairs;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (x[i] > 0 && y[i] > 0) pairs.push_back(std::log(x[i] / y[i]));
  return pairs;
}

TimeEvidence evidence_of(const Series& pairs, const Series& now, const Series& base) {
  TimeEvidence e;
  e.now = median_of(now);
  e.baseline = median_of(base);
  const double tau = autocorrelation_time(pairs);
  e.samples = pairs.size();
  e.unit = "pairs of turns";
  e.independent = static_cast<double>(pairs.size()) / tau;
  e.drifts = e.independent < TimeEvidence::kLeastIndependent;
  const SignedRanks ranks = signed_ranks(pairs, std::sqrt(tau));
  e.ratio = e.shift = std::exp(ranks.estimate);
  e.interval = {std::exp(ranks.interval.low), std::exp(ranks.interval.high)};
  e.p_value = ranks.p_value;
  e.least_p_value = ranks.least_p_value;
  const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
  e.least_ratio = std::exp(*least);
  e.most_ratio = std::exp(*most);
  return e;
}

// What both kinds of time are in a row.
const Series& clock_of(const PointResult& r) {
  return r.iteration_ms->samples;
}
const Series& cpu_of(const PointResult& r) {
  return r.turn_cpu_ms;
}

TimeEvidence weigh_kind(const std::vector<const PointResult*>& now, const std::vector<const PointResult*>& base,
                        const Series& (*kind)(const PointResult&), Series& rounds) {
  Series pairs, of_now, of_base;
  for (std::size_t r = 0; r < now.size(); ++r) {
    const Series &x = kind(*now[r]), &y = kind(*base[r]);
    const Series more = pairs_of(x, y, *now[r]->turn_steps);
    pairs.insert(pairs.end(), more.begin(), more.end());
    of_now.insert(of_now.end(), x.begin(), x.end());
    of_base.insert(of_base.end(), y.begin(), y.end());
    rounds.push_back(std::exp(signed_ranks(more, 1).estimate));
  }
  return evidence_of(pairs, of_now, of_base);
}

std::string change_text(double ratio) {
  const std::string far = beyond_percent(ratio);
  return far.empty() ? fmt::format("{:+.1f} %", (ratio - 1) * 100) : far;
}
std::string reported_of(const Series& rounds) {
  std::string text;
  for (const double ratio : rounds) text += (text.empty() ? "" : ", ") + change_text(ratio);
  return text;
}

// Whether each round is on that side of a third of the threshold; of four or more, two thirds of them. On the other side of it may be one
// in six.
bool rounds_agree(const Series& rounds, bool slower, double threshold) {
  const double third = 1 + threshold / 3;
  const auto beyond = [&](double ratio) { return slower ? ratio > third : ratio < 1 / third; };
  const auto against = [&](double ratio) { return slower ? ratio < 1 / third : ratio > third; };
  const auto count = [&](const auto& side) {
    return static_cast<std::size_t>(std::count_if(rounds.begin(), rounds.end(), side));
  };
  const std::size_t n = rounds.size(), need = n < 4 ? n : (2 * n + 2) / 3;
  return count(beyond) >= need && count(against) <= n / 6;
}

// The means of all turns that have a partner, with the spread of their differences.
MeanRatio total_of(const std::vector<const PointResult*>& now, const std::vector<const PointResult*>& base) {
  Series x, y;
  for (std::size_t r = 0; r < now.size(); ++r) {
    const auto steps = static_cast<std::size_t>(*now[r]->turn_steps);
    Series a = means_of_turns(clock_of(*now[r]), steps), b = means_of_turns(clock_of(*base[r]), steps);
    const std::size_t both = std::min(a.size(), b.size());
    x.insert(x.end(), a.begin(), a.begin() + static_cast<std::ptrdiff_t>(both));
    y.insert(y.end(), b.begin(), b.begin() + static_cast<std::ptrdiff_t>(both));
  }
  const double x_mean = mean_of(x).mean, y_mean = mean_of(y).mean;
  Series apart;
  for (std::size_t i = 0; i < x.size(); ++i) apart.push_back(x[i] / x_mean - y[i] / y_mean);
  // All that varies is in the one side: the relative difference, about the ratio.
  MeanOf differing = mean_of(apart, autocorrelation_time(apart));
  differing.mean = x_mean;
  differing.variance *= x_mean * x_mean;
  return mean_ratio(differing, {y_mean, 0, differing.worth});
}

// The sum is longer beyond doubt, whatever the middle says.
bool is_longer(const MeanRatio& total, double threshold) {
  return total.interval.low > 1 && total.interval.high >= 1 + threshold && total.ratio >= 1 + 2 * threshold / 3;
}

TimeJudgement judge_kind(const TimeEvidence& e, const Series& rounds, double p_value, double threshold) {
  TimeJudgement judged = judge_time(e, p_value, 1, threshold);
  if (judged.verdict != TimeVerdict::slower && judged.verdict != TimeVerdict::faster) return judged;
  const bool slower = judged.verdict == TimeVerdict::slower;
  if (!rounds_agree(rounds, slower, threshold))
    return {TimeVerdict::ambiguous, fmt::format("{} in all rounds together, but they do not agree: {}",
                                                slower ? "slower" : "faster", reported_of(rounds))};
  return judged;
}

}  // namespace

bool took_turns(const PointResult& now, const PointResult& base) {
  const auto complete = [](const PointResult& r) {
    return r.turn_steps && *r.turn_steps > 0 && r.iteration_ms &&
           r.iteration_ms->samples.size() == r.turn_cpu_ms.size() &&
           std::all_of(r.turn_cpu_ms.begin(), r.turn_cpu_ms.end(), [](double ms) { return ms > 0; });
  };
  if (!complete(now) || !complete(base) || *now.turn_steps != *base.turn_steps) return false;
  return std::min(now.turn_cpu_ms.size(), base.turn_cpu_ms.size()) / static_cast<std::size_t>(*now.turn_steps) >=
         kLeastPairs;
}

TurnsEvidence TurnsTest::weigh(const std::vector<const PointResult*>& now,
                               const std::vector<const PointResult*>& base) {
  TurnsEvidence e;
  e.clock = weigh_kind(now, base, clock_of, e.clock_rounds);
  e.cpu = weigh_kind(now, base, cpu_of, e.cpu_rounds);
  e.total = total_of(now, base);
  const SlowSteps slow = slow_steps(clock_of(*now.front()));
  if (slow.recurs()) e.pattern = slow_pattern(slow);
  return e;
}

namespace {

std::string interval_text(double ratio, const Interval& interval) {
  return fmt::format("{}, {} to {}", change_text(ratio), change_text(interval.low), change_text(interval.high));
}

TimeJudgement judge_clocks(const TurnsEvidence& e, double clock_p, double cpu_p, double threshold) {
  TimeJudgement clock = judge_kind(e.clock, e.clock_rounds, clock_p, threshold);
  const bool not_slower = clock.verdict == TimeVerdict::same || clock.verdict == TimeVerdict::faster;
  if (not_slower && is_longer(e.total, threshold))
    return {TimeVerdict::ambiguous,
            fmt::format("most turns are not slower ({}), all together are{}{}; measure more rounds",
                        change_text(e.clock.ratio), e.pattern.empty() ? "" : ": ", e.pattern)};
  if (clock.verdict != TimeVerdict::ambiguous) return clock;
  const TimeJudgement cpu = judge_kind(e.cpu, e.cpu_rounds, cpu_p, threshold);
  const std::string reported = "CPU time of the ranks " + interval_text(e.cpu.ratio, e.cpu.interval);
  if (cpu.verdict == TimeVerdict::slower || cpu.verdict == TimeVerdict::faster)
    return {cpu.verdict, reported + "; the clock does not decide: something else ran"};
  clock.reason += "; " + reported;
  return clock;
}

}  // namespace

TimeJudgement judge_turns(const TurnsEvidence& e, double clock_p, double cpu_p, double threshold) {
  TimeJudgement judged = judge_clocks(e, clock_p, cpu_p, threshold);
  judged.reason += (judged.reason.empty() ? "" : "; ") + std::string("the mean of all turns ") +
                   interval_text(e.total.ratio, e.total.interval);
  return judged;
}

}  // namespace mbench::reports
