#include "reports/gate/turns_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/spec/result.h"
#include "reports/records/number_text.h"

namespace mbench::reports {
namespace {

// As few would not give the p-value that a verdict needs.
constexpr std::size_t kLeastPairs = 10;

using Series = std::vector<double>;

Series medians_of_turns(const Series& samples, std::size_t steps) {
  Series medians;
  for (std::size_t i = 0; i + steps <= samples.size(); i += steps)
    medians.push_back(median_of({samples.begin() + static_cast<std::ptrdiff_t>(i), samples.begin() + static_cast<std::ptrdiff_t>(i + steps)}));
  return medians;
}

// Logarithms of new over old, turn by turn; where one has more turns than the other these have no partner.
Series pairs_of(const Series& now, const Series& base, std::int64_t steps) {
  const Series x = medians_of_turns(now, static_cast<std::size_t>(steps)), y = medians_of_turns(base, static_cast<std::size_t>(steps));
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

std::string percent(double ratio) {
  const std::string far = beyond_percent(ratio);
  return far.empty() ? fmt::format("{:+.1f} %", (ratio - 1) * 100) : far;
}
std::string told_of(const Series& rounds) {
  std::string text;
  for (const double ratio : rounds) text += (text.empty() ? "" : ", ") + percent(ratio);
  return text;
}

// Whether each round is on that side of a third of the threshold; of four or more, two thirds of them. On the other side of it may be one
// in six.
bool rounds_agree(const Series& rounds, bool slower, double threshold) {
  const double third = 1 + threshold / 3;
  const auto beyond = [&](double ratio) { return slower ? ratio > third : ratio < 1 / third; };
  const auto against = [&](double ratio) { return slower ? ratio < 1 / third : ratio > third; };
  const auto count = [&](const auto& side) { return static_cast<std::size_t>(std::count_if(rounds.begin(), rounds.end(), side)); };
  const std::size_t n = rounds.size(), need = n < 4 ? n : (2 * n + 2) / 3;
  return count(beyond) >= need && count(against) <= n / 6;
}

TimeJudgement judge_kind(const TimeEvidence& e, const Series& rounds, double p_value, double threshold) {
  TimeJudgement judged = judge_time(e, p_value, threshold);
  if (judged.verdict != TimeVerdict::slower && judged.verdict != TimeVerdict::faster) return judged;
  const bool slower = judged.verdict == TimeVerdict::slower;
  if (!rounds_agree(rounds, slower, threshold))
    return {TimeVerdict::ambiguous, fmt::format("{} in all rounds together, but they do not agree: {}", slower ? "slower" : "faster", told_of(rounds))};
  return judged;
}

}  // namespace

bool took_turns(const PointResult& now, const PointResult& base) {
  const auto complete = [](const PointResult& r) {
    return r.turn_steps && *r.turn_steps > 0 && r.iteration_ms && r.iteration_ms->samples.size() == r.turn_cpu_ms.size() &&
           std::all_of(r.turn_cpu_ms.begin(), r.turn_cpu_ms.end(), [](double ms) { return ms > 0; });
  };
  if (!complete(now) || !complete(base) || *now.turn_steps != *base.turn_steps) return false;
  return std::min(now.turn_cpu_ms.size(), base.turn_cpu_ms.size()) / static_cast<std::size_t>(*now.turn_steps) >= kLeastPairs;
}

TurnsEvidence TurnsTest::weigh(const std::vector<const PointResult*>& now, const std::vector<const PointResult*>& base) {
  TurnsEvidence e;
  e.clock = weigh_kind(now, base, clock_of, e.clock_rounds);
  e.cpu = weigh_kind(now, base, cpu_of, e.cpu_rounds);
  return e;
}

TimeJudgement judge_turns(const TurnsEvidence& e, double clock_p, double cpu_p, double threshold) {
  TimeJudgement clock = judge_kind(e.clock, e.clock_rounds, clock_p, threshold);
  if (clock.verdict != TimeVerdict::ambiguous) return clock;
  const TimeJudgement cpu = judge_kind(e.cpu, e.cpu_rounds, cpu_p, threshold);
  const std::string told = fmt::format("CPU time of the ranks {}, {} to {}", percent(e.cpu.ratio), percent(e.cpu.interval.low), percent(e.cpu.interval.high));
  if (cpu.verdict == TimeVerdict::slower || cpu.verdict == TimeVerdict::faster)
    return {cpu.verdict, told + "; the clock alone cannot tell: something else ran"};
  clock.reason += "; " + told;
  return clock;
}

}  // namespace mbench::reports
