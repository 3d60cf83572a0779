#include "reports/records/wander.h"

#include <algorithm>
#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kLeastApart = 1.01;       // of two states, as a factor
constexpr std::size_t kLeastSamples = 10;  // samples of which anything is said
constexpr double kPersists = 2.5;          // spreads below the number of stays that chance would have: 0.6 %
constexpr double kReach = 2.576;           // of the normal distribution, 99 %
constexpr double kOfChange = 2, kShows = 8;
constexpr double kAlike = 0.5;  // of the other run's levels: what is seen is of the same kind

// What a limit makes of a run: how many samples lie above it, and the stays on either side of it.
struct Stays {
  double above = 0, below = 0, stays = 0;
  double sum_above = 0, sum_below = 0;

  Stays(const std::vector<double>& samples, double limit) : stays(samples.empty() ? 0 : 1) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool high = samples[i] > limit;
      (high ? sum_above : sum_below) += samples[i], ++(high ? above : below);
      stays += i > 0 && high != (samples[i - 1] > limit);
    }
  }
  // One sample across the limit may be noise.
  bool has_both() const { return std::min(above, below) >= 2; }
  // Of samples in any order.
  double expected() const { return 2 * above * below / (above + below) + 1; }
  double variance() const { return (expected() - 1) * (expected() - 2) / (above + below - 1); }
};

// Of two runs with the same modes. A run that keeps to one of them shows none.
Wanders states_of(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> all = one;
  all.insert(all.end(), other.begin(), other.end());
  const double limit = limit_between_modes(all, kLeastApart);
  if (!std::isfinite(limit)) return {};
  double stays = 0, expected = 0, variance = 0;
  const Stays of_one(one, limit), of_other(other, limit);
  for (const Stays& run : {of_one, of_other})
    if (run.has_both()) stays += run.stays, expected += run.expected(), variance += run.variance();
  if (!(stays < expected - kPersists * std::sqrt(variance))) return {};
  const double by = std::log((of_one.sum_above + of_other.sum_above) / (of_one.above + of_other.above) *
                             (of_one.below + of_other.below) / (of_one.sum_below + of_other.sum_below));
  const auto shown = [by](const Stays& run) { return run.has_both() ? Wander{by, run.stays} : Wander{}; };
  return {shown(of_one), shown(of_other)};
}

Wander change_of_level(const std::vector<double>& samples) {
  std::vector<double> logs;
  for (const double x : samples) logs.push_back(std::log(x));
  const Levels levels = levels_of(logs, 3, false);
  if (levels.is_constant(Levels::kStrong)) return {};
  const double of_line = std::abs(levels.slope) * static_cast<double>(logs.size() - 1);
  return {levels.step_bic < levels.line_bic ? std::abs(levels.after - levels.before) : of_line, kOfChange};
}

// Of the square of a mean's error.
double share(const Wander& wander) {
  return wander.by > 0 ? wander.by * wander.by / (4 * wander.stays) : 0;
}

Wander worse(const Wander& one, const Wander& other) {
  return share(one) > share(other) ? one : other;
}

// Without a warm-up and a single spike.
std::vector<double> in_order(const std::vector<double>& samples, const SlowSteps& slow) {
  return slow.is_spike() ? body_of(samples, slow) : without_warm_up(samples, slow);
}

}  // namespace

Wander wander_of(const std::vector<double>& samples, const SlowSteps& slow) {
  const std::vector<double> judged = in_order(samples, slow), body = body_of(samples, slow);
  if (judged.size() < kLeastSamples) return {};
  const Wander states = states_of(judged, {}).one;
  return body.size() < kLeastSamples ? states : worse(states, change_of_level(body));
}

Wanders wanders_of(const std::vector<double>& one, const SlowSteps& slow_one, const std::vector<double>& other,
                   const SlowSteps& slow_other) {
  const std::vector<double> x = in_order(one, slow_one), y = in_order(other, slow_other);
  if (x.size() < kLeastSamples || y.size() < kLeastSamples)
    return {wander_of(one, slow_one), wander_of(other, slow_other)};
  const Wanders shared = states_of(x, y);
  return {worse(wander_of(one, slow_one), shared.one), worse(wander_of(other, slow_other), shared.other)};
}

double doubt_of(const Wander& one, const Wander& other) {
  const auto with = [](Wander side, const Wander& beside) {
    return side.by >= kAlike * beside.by || beside.stays >= kShows ? side : Wander{beside.by, kOfChange};
  };
  return kReach * std::sqrt(share(with(one, other)) + share(with(other, one)));
}

}  // namespace mbench::reports
