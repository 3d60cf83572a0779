#include "reports/records/wander.h"

#include <algorithm>
#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kLeastApart = 1.01;       // of two states, as a factor
constexpr std::size_t kLeastSamples = 10;  // samples of which anything is said
constexpr double kPersists = 3;            // spreads below the number of stays that chance would have: 0.13 %
constexpr double kReach = 2.576;           // of the normal distribution, 99 %
constexpr double kOfChange = 2, kShows = 8;

Wander states_of(const std::vector<double>& samples) {
  const double limit = limit_between_modes(samples, kLeastApart);
  if (!std::isfinite(limit)) return {};
  double high = 0, low = 0, of_high = 0, of_low = 0, stays = 1;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool above = samples[i] > limit;
    (above ? high : low) += samples[i], ++(above ? of_high : of_low);
    stays += i > 0 && above != (samples[i - 1] > limit);
  }
  const double n = of_high + of_low, expected = 2 * of_high * of_low / n + 1;
  const double variance = (expected - 1) * (expected - 2) / (n - 1);
  if (!(stays < expected - kPersists * std::sqrt(variance))) return {};
  return {std::log(high / of_high * of_low / low), stays};
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

}  // namespace

Wander wander_of(const std::vector<double>& samples, const SlowSteps& slow) {
  const std::vector<double> body = body_of(samples, slow);
  if (body.size() < kLeastSamples) return {};
  const Wander states = states_of(slow.is_spike() ? body : without_warm_up(samples, slow));
  const Wander change = change_of_level(body);
  return share(states) > share(change) ? states : change;
}

double doubt_of(const Wander& one, const Wander& other) {
  const auto with = [](Wander side, const Wander& beside) {
    return side.by > 0 || beside.stays >= kShows ? side : Wander{beside.by, kOfChange};
  };
  return kReach * std::sqrt(share(with(one, other)) + share(with(other, one)));
}

}  // namespace mbench::reports
