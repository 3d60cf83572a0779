#include "reports/records/two_states.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr double kAnywhere = 0.001;   // share of samples of which no level says anything
constexpr double kFreedom = 4;        // of Student's t
constexpr double kLeastNoise = 1e-4;  // of a clock
constexpr double kMostOften = 0.9;    // the chance to switch: nearly every step
constexpr int kRounds = 12;           // of expectation and maximisation, which settle in a few
constexpr std::size_t kMostValues =
    100;  // of a run; of more, two levels fit normal noise better than one of Student's t

// A run's samples as logarithms, and how wide they lie about a level.
struct Run {
  std::vector<double> logs;
  double noise = kLeastNoise;
};

// Two levels and the chance to switch between them at a step. What is at neither lies anywhere in `range`.
struct States {
  std::array<double, 2> level{};
  double chance = 0.5, range = 1;
  bool one_level() const { return level[0] == level[1]; }
};

double density(double deviations) {
  constexpr double kPeak = 0.375;
  const double u = 1 + deviations * deviations / kFreedom;
  return kPeak / (u * u * std::sqrt(u));
}

// What a round of expectation adds up for the next levels and noise. Far samples count less, as Student's t has it.
struct Sums {
  double samples = 0;
  std::array<double, 2> weight{}, sum{}, squares{};
  void add(std::size_t state, double x, double share, double deviations) {
    const double w = share * (kFreedom + 1) / (kFreedom + deviations * deviations);
    samples += share, weight[state] += w, sum[state] += w * x, squares[state] += w * x * x;
  }
};

// The logarithm of the likelihood of a run, by the forward algorithm; with `sums`, what the backward one makes of each state.
double likelihood(const Run& run, const States& s, Sums* sums) {
  using Pair = std::array<double, 2>;
  const std::size_t n = run.logs.size();
  const double anywhere = kAnywhere / s.range, staying = 1 - s.chance;
  const auto deviations = [&](std::size_t i, std::size_t state) { return (run.logs[i] - s.level[state]) / run.noise; };
  std::vector<Pair> seen(n), forward(n);
  std::vector<double> scale(n);
  double log = 0;
  Pair before{0.5, 0.5};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t state = 0; state < 2; ++state) {
      seen[i][state] = (1 - kAnywhere) * density(deviations(i, state)) / run.noise + anywhere;
      const double here = i == 0 ? before[state] : before[state] * staying + before[1 - state] * s.chance;
      forward[i][state] = here * seen[i][state];
    }
    scale[i] = forward[i][0] + forward[i][1];
    log += std::log(scale[i]);
    for (double& f : forward[i]) f /= scale[i];
    before = forward[i];
  }
  Pair after{1, 1};
  for (std::size_t i = sums ? n : 0; i-- > 0;) {
    for (std::size_t state = 0; state < 2; ++state)
      sums->add(state, run.logs[i], forward[i][state] * after[state] * (1 - anywhere / seen[i][state]),
                deviations(i, state));
    const Pair next{seen[i][0] * after[0] / scale[i], seen[i][1] * after[1] / scale[i]};
    for (std::size_t state = 0; state < 2; ++state) after[state] = staying * next[state] + s.chance * next[1 - state];
  }
  return log;
}

// The levels and noise that these sums ask for.
void maximise(std::vector<Run>& runs, States& s, const std::vector<Sums>& sums) {
  std::array<double, 2> weight{}, sum{};
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (std::size_t state = 0; state < 2; ++state) {
      const double precision = 1 / (runs[r].noise * runs[r].noise);
      weight[state] += precision * sums[r].weight[state], sum[state] += precision * sums[r].sum[state];
    }
  if (s.one_level())
    s.level[0] = s.level[1] = (sum[0] + sum[1]) / (weight[0] + weight[1]);
  else
    for (std::size_t state = 0; state < 2; ++state)
      if (weight[state] > 0) s.level[state] = sum[state] / weight[state];
  for (std::size_t r = 0; r < runs.size(); ++r) {
    double squares = 0;
    for (std::size_t state = 0; state < 2; ++state)
      squares += sums[r].squares[state] - 2 * s.level[state] * sums[r].sum[state] +
                 s.level[state] * s.level[state] * sums[r].weight[state];
    if (sums[r].samples > 0) runs[r].noise = std::max(kLeastNoise, std::sqrt(std::max(0.0, squares) / sums[r].samples));
  }
}

// With the best levels and noise at this chance, from levels that are nearly right.
double best_likelihood(std::vector<Run> runs, States s) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Sums> sums(runs.size());
    for (std::size_t r = 0; r < runs.size(); ++r) likelihood(runs[r], s, &sums[r]);
    maximise(runs, s, sums);
  }
  double log = 0;
  for (const Run& run : runs) log += likelihood(run, s, nullptr);
  return log;
}

// The median distance from the nearer level, as of a normal distribution.
double width_about(const std::vector<double>& logs, const std::array<double, 2>& level) {
  std::vector<double> away;
  for (const double x : logs) away.push_back(std::min(std::abs(x - level[0]), std::abs(x - level[1])));
  return std::max(kLeastNoise, 1.4826 * median_of(std::move(away)));
}

double best_from(const std::vector<const std::vector<double>*>& logs, const States& s) {
  std::vector<Run> runs;
  for (const std::vector<double>* each : logs) runs.push_back({*each, width_about(*each, s.level)});
  return best_likelihood(std::move(runs), s);
}

// A run by itself: `change` and `mode`.
struct Alone {
  double one_level = 0, two_levels = -HUGE_VAL;
};
Alone alone(const std::vector<double>& logs, double range) {
  const double n = static_cast<double>(logs.size()), middle = median_of(logs);
  Alone found{best_from({&logs}, {{middle, middle}, 0.5, range})};
  std::vector<double> sorted = logs;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) { return sorted[static_cast<std::size_t>(share * (n - 1))]; };
  for (const double low : {0.1, 0.25, 0.5, 0.75, 0.9}) {  // how many of the samples
    States s{{at(low / 2), at((1 + low) / 2)}, kMostOften, range};
    for (; !s.one_level() && s.chance > 1 / n; s.chance /= 2)
      found.two_levels = std::max(found.two_levels, best_from({&logs}, s) - std::log(n));
  }
  return found;
}

std::vector<double> logs_of(const std::vector<double>& samples) {
  const std::size_t size = (samples.size() + kMostValues - 1) / kMostValues;
  std::vector<double> logs;
  for (std::size_t i = 0; i + size <= samples.size(); i += size) {
    double sum = 0;
    for (std::size_t j = i; j < i + size; ++j) sum += samples[j];
    logs.push_back(std::log(sum / static_cast<double>(size)));
  }
  return logs;
}

}  // namespace

ChangeEvidence evidence_of_change(const std::vector<double>& one, const std::vector<double>& other) {
  const std::vector<double> x = logs_of(one), y = logs_of(other);
  const auto [x_low, x_high] = std::minmax_element(x.begin(), x.end());
  const auto [y_low, y_high] = std::minmax_element(y.begin(), y.end());
  const double range = std::max(std::max(*x_high, *y_high) - std::min(*x_low, *y_low), 10 * kLeastNoise);
  const Alone of_x = alone(x, range), of_y = alone(y, range);
  double states = -HUGE_VAL;
  for (double stay = static_cast<double>(std::min(x.size(), y.size())) / 2; stay >= 1.5; stay /= 2)
    states = std::max(states, best_from({&x, &y}, {{median_of(y), median_of(x)}, 1 / stay, range}));
  const auto best = [](const Alone& run) { return std::max(run.one_level, run.two_levels); };
  return {best(of_x) + best(of_y) - states, of_x.one_level >= of_x.two_levels && of_y.one_level >= of_y.two_levels};
}

}  // namespace mbench::reports
