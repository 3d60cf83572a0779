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

}  // namespace
}  // namespace mbench::shapes

int main(int argc, char** argv) {
  using namespace mbench::shapes;
  const int runs = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (runs < 1) {
    std::fprintf(stderr, "[gate_rates] no number of runs, got \"%s\", need 1 or more\n", argv[1]);
    return 2;
  }
  fmt::print(
      "Percent of {} pairs of runs of each shape and length, judged with `time=5%`. Noise is 2 % where nothing else is "
      "said. "
      "Overlooked: the share of all pairs that are `same` or `faster` though their own means differ by 5 % or more. "
      "Hidden: by 7.5 % or more.\n\n",
      runs);
  fmt::print("## Nothing changed\n\n");
  table(of_no_change(), runs);
  fmt::print("\n## Nothing changed, and what disturbs lasts half of a short run or longer\n\n");
  table(of_long_memory(), runs);
  fmt::print(
      "\n## The same and 5 % in every step, where both sides are measured twice: --confirm, --confirm-baseline\n\n");
  std::vector<Shape> twice = of_long_memory();
  twice.push_back(of_longer(0.05).front());
  table(twice, runs, 2);
  for (const double by : {0.05, 0.10}) {
    fmt::print("\n## The mean step became {:.0f} % longer\n\n", by * 100);
    table(of_longer(by), runs);
  }
  fmt::print("\n## Every step became 5 % longer, and the noise remembers\n\n");
  table(of_longer_with_memory(0.05), runs);
  fmt::print("\n## A tenth hidden in any steps, whatever noise the runs have\n\n");
  hidden_table(runs);
}
