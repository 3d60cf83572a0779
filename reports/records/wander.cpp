#include "reports/records/wander.h"

#include <algorithm>
#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kLeastApart = 1.01;       // of two states, as a factor
constexpr double kModesApart = 3;          // spreads between them: persistence is asked for too
constexpr std::size_t kLeastSamples = 10;  // samples of which anything is said
constexpr double kPersists = 0.02;         // below this chance of so few stays
constexpr double kManyStays = 100,
                 kPersistsByMany = 2.054;  // more are judged by the normal distribution, at the same chance
constexpr double kReach = 2.576;           // of the normal distribution, 99 %
constexpr double kOfChange = 2, kShows = 12;
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

double log_choose(double n, double k) {
  const auto log_factorial = [](double x) {
    int sign = 0;
    return lgamma_r(x + 1, &sign);
  };
  return k < 0 || k > n ? -HUGE_VAL : log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

// The chances of 0, 1, 2, ... stays where the samples of a run come in any order (Wald and Wolfowitz, 1940).
std::vector<double> chances_of_stays(const Stays& run) {
  const double all = log_choose(run.above + run.below, run.above);
  const auto ways = [&](double high, double low) {
    return std::exp(log_choose(run.above - 1, high - 1) + log_choose(run.below - 1, low - 1) - all);
  };
  std::vector<double> chances(static_cast<std::size_t>(2 * std::min(run.above, run.below)) + 2, 0);
  for (std::size_t stays = 2; stays < chances.size(); ++stays) {
    const double half = std::floor(static_cast<double>(stays) / 2);
    chances[stays] = stays % 2 == 0 ? 2 * ways(half, half) : ways(half + 1, half) + ways(half, half + 1);
  }
  return chances;
}

// Whether the levels of these runs, taken together, alternate less often than by chance.
bool persists(const std::vector<const Stays*>& runs) {
  double stays = 0, expected = 0, variance = 0, most = 0;
  for (const Stays* run : runs) {
    stays += run->stays, expected += run->expected(), variance += run->variance();
    most = std::max(most, std::min(run->above, run->below));
  }
  if (most > kManyStays) return stays < expected - kPersistsByMany * std::sqrt(variance);
  std::vector<double> chances{1};  // of so many stays in all runs
  for (const Stays* run : runs) {
    const std::vector<double> more = chances_of_stays(*run);
    std::vector<double> sums(chances.size() + more.size() - 1, 0);
    for (std::size_t i = 0; i < chances.size(); ++i)
      for (std::size_t j = 0; j < more.size(); ++j) sums[i + j] += chances[i] * more[j];
    chances = std::move(sums);
  }
  double chance = 0;
  for (std::size_t i = 0; i < chances.size() && static_cast<double>(i) <= stays; ++i) chance += chances[i];
  return chance < kPersists;
}

// Of two runs with the same modes. A run that keeps to one of them shows none.
Wanders states_of(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> all = one;
  all.insert(all.end(), other.begin(), other.end());
  const double limit = limit_between_modes(all, kLeastApart, kModesApart);
  if (!std::isfinite(limit)) return {};
  const Stays of_one(one, limit), of_other(other, limit);
  std::vector<const Stays*> mixed;
  for (const Stays* run : {&of_one, &of_other})
    if (run->has_both()) mixed.push_back(run);
  if (mixed.empty() || !persists(mixed)) return {};
  const double by = std::log((of_one.sum_above + of_other.sum_above) / (of_one.above + of_other.above) *
                             (of_one.below + of_other.below) / (of_one.sum_below + of_other.sum_below));
  // The first and the last stay are cut off: together they are worth one. A run that alternates as by chance is noise about the limit
  // of both, and vouches for no more than a run of one change.
  const auto shown = [by](const Stays& run) {
    if (!run.has_both()) return Wander{};
    return Wander{by, persists({&run}) ? run.stays - 1 : std::min(run.stays - 1, kOfChange)};
  };
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
