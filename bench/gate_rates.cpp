// How often the gate is right: gate_rates [RUNS]. Draws pairs of runs of every shape of test/reports/gate/step_shapes.h, has them judged
// as mbench compare judges times, and prints the shares of each verdict as Markdown. docs/evidence has what it printed.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "test/reports/gate/step_shapes.h"

namespace mbench::shapes {
namespace {

constexpr double kThreshold = 0.05;
constexpr int kSamples[] = {30, 60, 200};

std::string percent(const Rates& rates, int count) {
  if (count == 0) return "0";
  return fmt::format("{:.1f}", 100 * rates.share(count));
}

void table(const std::vector<Shape>& shapes, int runs, int measurements = 1) {
  fmt::print(
      "| shape | samples | slower | faster | ambiguous | same | overlooked | hidden |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const Shape& shape : shapes)
    for (const int samples : kSamples) {
      const Rates r = rates_of(shape, runs, samples, kThreshold, measurements);
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", samples == kSamples[0] ? shape.name : "", samples,
                 percent(r, r.slower), percent(r, r.faster), percent(r, r.ambiguous), percent(r, r.same),
                 percent(r, r.overlooked), percent(r, r.hidden));
      std::fflush(stdout);
    }
}

// A tenth hidden in any steps, in noise of every shape of no change: of the pairs whose own means differ by 3/2 of the threshold.
void hidden_table(int runs) {
  fmt::print("| samples | pairs | slower | ambiguous | same or faster |\n|---:|---:|---:|---:|---:|\n");
  reports::TimeTest test;
  for (const int samples : {20, 30, 60}) {
    Random random(20261128);
    int pairs = 0, slower = 0, ambiguous = 0;
    for (const Shape& shape : of_no_change())
      for (int run = 0; run < runs; ++run) {
        const auto [base, now] = hidden_in(shape, random, samples, 0.10);
        if (reports::mean_of(now).mean < (1 + 1.5 * kThreshold) * reports::mean_of(base).mean) continue;
        const reports::TimeVerdict verdict = judge_time(test.weigh(now, base), kThreshold).verdict;
        ++pairs;
        slower += verdict == reports::TimeVerdict::slower;
        ambiguous += verdict == reports::TimeVerdict::ambiguous;
      }
    fmt::print("| {} | {} | {} | {} | {} |\n", samples, pairs, slower, ambiguous, pairs - slower - ambiguous);
    std::fflush(stdout);
  }
}

// Two states as lasting_states() draws them, of which a rule knows all but which of them a run is in.
struct KnownStates {
  double low, high, noise, stay;

  double log_density(double x, double level) const {
    const double z = (x - level) / (noise * level);
    return -0.5 * z * z - std::log(level);
  }
  double log_of_level(const Steps& steps, double level) const {
    double log = 0;
    for (const double x : steps) log += log_density(x, level);
    return log;
  }
  // By the forward algorithm.
  double log_of_states(const Steps& steps) const {
    double in_low = 0.5, in_high = 0.5, log = 0;
    for (const double x : steps) {
      const double at_low = log_density(x, low), at_high = log_density(x, high), most = std::max(at_low, at_high);
      const double to_low = in_low * (1 - 1 / stay) + in_high / stay,
                   to_high = in_high * (1 - 1 / stay) + in_low / stay;
      in_low = to_low * std::exp(at_low - most), in_high = to_high * std::exp(at_high - most);
      const double sum = in_low + in_high;
      log += most + std::log(sum), in_low /= sum, in_high /= sum;
    }
    return log;
  }
  double log_ratio(const Steps& now, const Steps& base) const {
    return log_of_level(now, high) + log_of_level(base, low) - log_of_states(now) - log_of_states(base);
  }
};

// The least alarms on two states that a rule can raise which finds 95 % of changes from the one level to the other. By the lemma of Neyman
// and Pearson (1933) that is the ratio of likelihoods, for which everything is known.
void least_table(int runs) {
  fmt::print("| shape | 30 samples | 60 samples |\n|---|---:|---:|\n");
  const std::pair<const char*, KnownStates> shapes[] = {
      {"two states 10 % apart, fifteen steps each", {1, 1.1, 0.003, 15}},
      {"two states 20 % apart, ten steps each, 5 % noise", {1, 1.2, 0.05, 10}},
      {"two states 5 % apart, fifteen steps each, 2 % noise", {1, 1.05, kNoise, 15}},
      {"two states 4 % apart, forty steps each, 2 % noise", {0.98, 1.02, kNoise, 40}},
      {"two states 10 % apart, forty steps each", {1, 1.1, 0.003, 40}},
      {"two states 20 % apart, forty steps each, 2 % noise", {1, 1.2, kNoise, 40}}};
  for (const auto& [name, s] : shapes) {
    fmt::print("| {} ", name);
    for (const int samples : {30, 60}) {
      Random random(20261129);
      const Draw states = lasting_states(s.low, s.high, s.noise, s.stay);
      const auto at = [&s = s](double level) {
        return by_step([=](Random& r, int, int) { return level * (1 + s.noise * gauss(r)); });
      };
      std::vector<double> changed, same;
      for (int run = 0; run < runs; ++run) {
        changed.push_back(s.log_ratio(at(s.high)(random, samples), at(s.low)(random, samples)));
        same.push_back(s.log_ratio(states(random, samples), states(random, samples)));
      }
      std::sort(changed.begin(), changed.end());
      const double limit = changed[changed.size() / 20];
      const auto alarms = std::count_if(same.begin(), same.end(), [&](double x) { return x > limit; });
      fmt::print("| {:.1f} ", 200.0 * static_cast<double>(alarms) / runs);  // slower and faster
    }
    fmt::print("|\n");
  }
}

}  // namespace
}  // namespace mbench::shapes

int main(int argc, char** argv) {
  using namespace mbench::shapes;
  const int runs = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (runs < 1) {
    std::fprintf(stderr, "[gate_rates] no number of runs, got \"%s\", need 1 or more\n", argv[1]);
    return 2;
  }
  const int fewer = std::max(1, runs / 4);  // 1 % of alarms takes more to see than 95 % of power
  fmt::print(
      "Percent of {} pairs of runs of each shape and length, and of {} where the mean step became longer, judged with "
      "`time=5%`. Noise is 2 % where nothing else is "
      "said. "
      "Overlooked: the share of all pairs that are `same` or `faster` though their own means differ by 5 % or more. "
      "Hidden: by 7.5 % or more.\n\n",
      runs, fewer);
  fmt::print("## Nothing changed\n\n");
  table(of_no_change(), runs);
  fmt::print("\n## Nothing changed, and what disturbs lasts half of a short run or longer\n\n");
  table(of_long_memory(), runs);
  fmt::print("\n## The least alarms on these that find 95 % of changes, slower and faster\n\n");
  least_table(10 * runs);
  fmt::print(
      "\n## The same and 5 % in every step, where both sides are measured twice: --confirm, --confirm-baseline\n\n");
  std::vector<Shape> twice = of_long_memory();
  twice.push_back(of_longer(0.05).front());
  table(twice, runs, 2);
  for (const double by : {0.05, 0.10}) {
    fmt::print("\n## The mean step became {:.0f} % longer\n\n", by * 100);
    table(of_longer(by), fewer);
  }
  fmt::print("\n## Every step became 5 % longer, and the noise remembers\n\n");
  table(of_longer_with_memory(0.05), fewer);
  fmt::print("\n## A tenth hidden in any steps, whatever noise the runs have\n\n");
  hidden_table(fewer);
}
