#include "reports/gate/mean_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/gate/pattern.h"

namespace mbench::reports {
namespace {

constexpr double kLeastChange = 2.0 / 3;   // of the threshold, as of a shift
constexpr double kMostOfOne = 3.0 / 2;     // of the threshold, by which a spike or a warm-up may lengthen a run
constexpr double kMostUnlike = 1.0 / 3;    // of the threshold, where both runs have slow steps
constexpr std::size_t kLeastEpisodes = 3;  // that recur
// Standard errors from "nothing changed" that decide, and episodes of a stall.
constexpr double kDecides = 3, kEpisodesDecide = 8;

// What the mean of the judged samples is worth.
MeanOf worth_of(const std::vector<double>& judged, const std::vector<double>& body, const SlowSteps& slow, double tau) {
  MeanOf mean = mean_of(judged, tau);
  if (slow.period == 0) return mean;
  // Slow steps come as by the clock: what varies is each kind of step by itself, and where in the period the run began. A run of 30
  // steps holds seven or eight of a stall every 4th step.
  const double excess = (slow.size - 1) * slow.body, n = static_cast<double>(judged.size());
  const double period = static_cast<double>(slow.period), part = std::fmod(n, period) / period;
  std::vector<double> within = body;
  for (const std::size_t i : slow.at) within.push_back(judged[i - slow.warm_up] - excess);
  mean.variance = mean_of(within).variance + excess * excess * part * (1 - part) / n;
  return mean;
}

MeanRatio ratio_of(const TimedRun& now, const TimedRun& base, const std::vector<double>& x,
                   const std::vector<double>& x_body, const std::vector<double>& y, const std::vector<double>& y_body,
                   const MeanEvidence& e) {
  MeanRatio r = mean_ratio(worth_of(x, x_body, e.now, now.doubted), worth_of(y, y_body, e.baseline, base.doubted));
  const MeanRatio tested = mean_ratio(worth_of(x, x_body, e.now, now.tau), worth_of(y, y_body, e.baseline, base.tau));
  r.p_value = tested.p_value;
  r.deviations = tested.deviations;
  return r;
}

// About how many samples would decide: "; about 120 samples would decide".
std::string advice(const MeanRatio& mean, double threshold, double samples) {
  const double width = std::log(mean.interval.high / mean.interval.low), wanted = std::log1p(threshold);
  double need = wanted > 0 ? samples * std::pow(width / wanted, 2) : HUGE_VAL;
  if (std::abs(mean.ratio - 1) >= kLeastChange * threshold && mean.deviations != 0)
    need = std::min(need, samples * std::pow(kDecides / mean.deviations, 2));
  if (!(need <= 1e6)) return "";
  need = std::max(need, samples + 10);
  const double step = need > 1000 ? 100 : 10;
  return fmt::format("; about {:.0f} samples would decide", std::ceil(need / step) * step);
}

// In how many samples what came once would have come often enough.
std::string episodes_advice(double samples) {
  return fmt::format("; about {:.0f} samples would decide", std::ceil(kEpisodesDecide * samples / 10) * 10);
}

std::string share_text(double share) {
  return fmt::format("{:.{}f} %", share * 100, std::abs(share) < 0.0995 ? 1 : 0);
}

// "every 4th step at 3.0x, none in the baseline: slow steps cost 50 % of the mean step more".
std::string slow_cost(const MeanEvidence& e, double growth) {
  const std::string pattern = difference_in_pattern(e);
  return fmt::format("{}slow steps cost {} of the mean step {}", pattern.empty() ? "" : pattern + ": ",
                     share_text(std::abs(growth)), growth > 0 ? "more" : "less");
}

// "left out of the mean: the first 3 steps at 1.50x".
std::string left_out(const MeanEvidence& e) {
  std::string text;
  if (e.now.warm_up > 0)
    text = warm_up_pattern(e.now) + (e.baseline.warm_up > 0 ? ", in the baseline " : "");
  else if (e.baseline.warm_up > 0)
    text = "in the baseline ";
  text += warm_up_pattern(e.baseline);
  return text.empty() ? "" : "left out of the mean as a warm-up: " + text;
}

double fewer_samples(const MeanEvidence& e) {
  return static_cast<double>(std::min(e.now.samples, e.baseline.samples));
}

}  // namespace

bool MeanEvidence::recurs(bool in_now) const {
  const SlowSteps &one = in_now ? now : baseline, &other = in_now ? baseline : now;
  return one.episodes >= kLeastEpisodes && one.episodes > other.episodes;
}

MeanEvidence weigh_means(const TimedRun& now, const TimedRun& baseline) {
  MeanEvidence e;
  e.total = mean_of(now.samples).mean / mean_of(baseline.samples).mean;
  e.now = slow_steps(now.samples);
  e.baseline = slow_steps(baseline.samples);
  e.now_pattern = pattern_of(now.samples, e.now);
  e.baseline_pattern = pattern_of(baseline.samples, e.baseline);
  const std::vector<double> x = without_warm_up(now.samples, e.now), y = without_warm_up(baseline.samples, e.baseline);
  if (e.now.at.empty() && e.baseline.at.empty()) {
    e.all = e.body = ratio_of(now, baseline, x, x, y, y, e);
    return e;
  }
  const std::vector<double> x_body = body_of(now.samples, e.now), y_body = body_of(baseline.samples, e.baseline);
  e.all = ratio_of(now, baseline, x, x_body, y, y_body, e);
  e.body = mean_ratio(mean_of(x_body, now.doubted), mean_of(y_body, baseline.doubted));
  return e;
}

MeanVerdict judge_mean(const MeanEvidence& e, double p_value, double threshold, bool trusted) {
  const double high = 1 + threshold, low = 1 / high;
  const Interval& i = e.all.interval;
  const bool reaches_up = i.high >= high, reaches_down = i.low <= low;
  if (!reaches_up && !reaches_down) return MeanVerdict::same;
  const bool above = reaches_up && i.low > 1, below = reaches_down && i.high < 1;
  if (!trusted || (!above && !below)) return MeanVerdict::open;
  const double level = e.recurs(above) ? MeanEvidence::kRecurringLevel : MeanEvidence::kLevel;
  const double change = above ? e.all.ratio : 1 / e.all.ratio;
  if (p_value >= level || change < 1 + kLeastChange * threshold) return MeanVerdict::open;
  return above ? MeanVerdict::slower : MeanVerdict::faster;
}

std::string difference_in_pattern(const MeanEvidence& e) {
  if (e.now_pattern.empty() && e.baseline_pattern.empty()) return "";
  if (e.baseline_pattern.empty()) return e.now_pattern + (e.now.recurs() ? ", none in the baseline" : "");
  if (e.now_pattern.empty())
    return "baseline: " + e.baseline_pattern + (e.baseline.recurs() ? ", none in the new run" : "");
  return e.now_pattern + "; baseline: " + e.baseline_pattern;
}

SlowJudgement judge_slow_steps(const MeanEvidence& e, double threshold) {
  const double high = 1 + threshold, low = 1 / high, n = fewer_samples(e);
  const std::string pattern = difference_in_pattern(e);
  const std::string reported = pattern.empty() ? "" : pattern + ": ";
  const double off = std::max(e.total, 1 / e.total) - 1;
  const bool beyond = off >= kMostOfOne * threshold;
  const bool open = e.all.interval.high >= high || e.all.interval.low <= low;
  if (!open && beyond)
    return {true, fmt::format("{}, which cost {} of the run: a warm-up that was too short, or steps that are slow once "
                              "in a while; measure with more warm-up",
                              left_out(e), share_text(off))};
  const double growth = e.now.cost - e.baseline.cost;
  if (!open && e.now.recurs() && !e.baseline.recurs() && growth >= kLeastChange * threshold)
    return {true, slow_cost(e, growth) + ", nearly the threshold" + advice(e.all, threshold, n)};
  if (!open) return {false, left_out(e)};
  if (e.body.interval.high >= high || e.body.interval.low <= low || (e.now.at.empty() && e.baseline.at.empty()))
    return {true,
            reported + "the interval of the mean holds both no change and the threshold" + advice(e.all, threshold, n)};
  const bool episode = e.now.is_episode() || e.baseline.is_episode();
  if (!episode && !e.now.recurs() && !e.baseline.recurs()) {
    if (!beyond) return {false, reported + "a spike, which decides nothing"};
    return {true, fmt::format("{}{} of this run, by a spike or by a stall that comes once in so many steps{}", reported,
                              share_text(off), episodes_advice(n))};
  }
  if (std::abs(growth) < kMostUnlike * threshold && !beyond && !e.now.at.empty() && !e.baseline.at.empty())
    return {false, reported + "slow steps in both, which cost about as much"};
  const std::string cost = slow_cost(e, growth);
  if (e.now.episodes <= 1 && e.baseline.episodes <= 1)
    return {true, cost + ", in one episode, which may come again" + episodes_advice(n)};
  return {true, cost + ", too few of them to decide" + advice(e.all, threshold, n)};
}

}  // namespace mbench::reports
