// What a run costs: closed forms against a run of failures drawn one by one, ranges against their ends, and what is not known.
#include "reports/cost/run_cost.h"

#include <cmath>
#include <random>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::reports;

namespace {

constexpr double kHour = 3600, kDay = 86400;

// Seconds that a job takes which loses what it did since its last checkpoint, and may fail again while it restarts.
double one_run(double work, double interval, double checkpoint, double restart, double job_mtbf,
               std::mt19937_64& random) {
  std::exponential_distribution<double> next(1 / job_mtbf);
  double now = 0, done = 0, fails = next(random);
  while (done < work) {
    const double end = now + interval + checkpoint;
    if (fails >= end) {
      now = end;
      done += interval;
      continue;
    }
    double up = fails + restart;
    for (fails += next(random); fails < up; fails += next(random)) up = fails + restart;
    now = up;
  }
  return now;
}

double mean_of_runs(double work, double interval, double checkpoint, double restart, double job_mtbf) {
  std::mt19937_64 random(11);
  constexpr int kRuns = 400;
  double sum = 0;
  for (int i = 0; i < kRuns; ++i) sum += one_run(work, interval, checkpoint, restart, job_mtbf, random);
  return sum / kRuns;
}

StepFacts step() {
  return {.seconds = 10, .tokens = 4e6, .devices = 1000, .checkpoint_bytes = 1e12, .joules = std::nullopt};
}

}  // namespace

TEST_CASE("expected time is the mean of runs whose failures are drawn one by one") {
  struct Case {
    double interval, checkpoint, restart, job_mtbf;
  };
  for (const Case& c :
       {Case{1800, 30, 600, 4 * kHour}, {600, 60, 1200, kHour}, {3600, 5, 60, 12 * kHour}, {900, 300, 900, kHour}}) {
    const double work = std::round(30 * kDay / c.interval) * c.interval;
    INFO(c.interval << " " << c.checkpoint << " " << c.restart << " " << c.job_mtbf);
    CHECK(expected_seconds(work, c.interval, c.checkpoint, c.restart, c.job_mtbf) ==
          Approx(mean_of_runs(work, c.interval, c.checkpoint, c.restart, c.job_mtbf)).epsilon(0.01));
  }
}

TEST_CASE("no interval is better than the best one by more than a thousandth") {
  for (const double checkpoint : {1.0, 30.0, 300.0})
    for (const double mtbf : {0.5 * kHour, 3 * kHour, 100 * kHour}) {
      const double best = best_interval(checkpoint, mtbf),
                   at_best = expected_seconds(kDay, best, checkpoint, 600, mtbf);
      INFO(checkpoint << " s, fails every " << mtbf << " s, best " << best);
      for (const double factor : {0.25, 0.5, 0.8, 0.95, 1.05, 1.2, 2.0, 4.0})
        CHECK(expected_seconds(kDay, best * factor, checkpoint, 600, mtbf) > at_best * (1 - 1e-3));
    }
  // Young's, where a checkpoint takes next to nothing.
  CHECK(best_interval(1, 1e8) == Approx(std::sqrt(2e8)).epsilon(1e-3));
  // A job that fails while it writes a checkpoint as often as not.
  CHECK(best_interval(300, 100) == 100);
}

TEST_CASE("a run's steps, time, money and energy by hand, where nothing fails") {
  const RunCost cost = cost_of(step(), {.tokens = {4e9, 4e9},
                                        .price = Range{2, 3},
                                        .device_mtbf = std::nullopt,
                                        .restart = std::nullopt,
                                        .checkpoint_bandwidth = std::nullopt,
                                        .watts = Range{1000, 1000}});
  CHECK(cost.steps == Range{1000, 1000});
  CHECK(cost.work == Range{10000, 10000});
  CHECK(cost.device_hours.low == Approx(1000 * 10000 / kHour));
  CHECK(cost.money->low == Approx(2 * 1000 * 10000 / kHour));
  CHECK(cost.money->high == Approx(3 * 1000 * 10000 / kHour));
  CHECK(*cost.joules == Range{1e10, 1e10});
  CHECK_FALSE(cost.job_mtbf);
  CHECK_FALSE(cost.checkpoint);
  CHECK_FALSE(cost.interval);
  CHECK_FALSE(cost.goodput);
  CHECK_FALSE(cost.elapsed);
  CHECK_FALSE(cost.failures);
}

TEST_CASE("each of failures, restarts and checkpoints is needed for goodput, and what one alone tells is told") {
  RunAsked asked{.tokens = {4e12, 4e12},
                 .price = std::nullopt,
                 .device_mtbf = Range{5e4 * kHour, 5e4 * kHour},
                 .restart = Range{600, 600},
                 .checkpoint_bandwidth = Range{40e9, 40e9},
                 .watts = std::nullopt};
  const RunCost all = cost_of(step(), asked);
  REQUIRE(all.goodput);
  CHECK(all.job_mtbf->low == Approx(50 * kHour));
  CHECK(all.checkpoint->low == Approx(25));
  CHECK(all.elapsed->low == Approx(all.work.low / all.goodput->low));
  CHECK(all.failures->low == Approx(all.elapsed->low / (50 * kHour)));
  CHECK(all.device_hours.low == Approx(1000 * all.elapsed->low / kHour));
  CHECK_FALSE(all.money);
  CHECK_FALSE(all.joules);
  for (std::optional<Range> RunAsked::*input :
       {&RunAsked::device_mtbf, &RunAsked::restart, &RunAsked::checkpoint_bandwidth}) {
    RunAsked less = asked;
    less.*input = std::nullopt;
    const RunCost cost = cost_of(step(), less);
    CHECK_FALSE(cost.goodput);
    CHECK_FALSE(cost.elapsed);
    CHECK(cost.device_hours.low == Approx(1000 * cost.work.low / kHour));
    CHECK(cost.job_mtbf.has_value() == less.device_mtbf.has_value());
    CHECK(cost.checkpoint.has_value() == less.checkpoint_bandwidth.has_value());
  }
}

TEST_CASE("ranges in are ranges out, from the best of their ends to the worst") {
  const RunAsked asked{.tokens = {1e12, 2e12},
                       .price = Range{1.9, 2.5},
                       .device_mtbf = Range{1e4 * kHour, 5e4 * kHour},
                       .restart = Range{300, 1200},
                       .checkpoint_bandwidth = Range{10e9, 40e9},
                       .watts = std::nullopt};
  const auto at = [](double tokens, double price, double mtbf, double restart, double bandwidth) {
    return cost_of(step(), {.tokens = {tokens, tokens},
                            .price = Range{price, price},
                            .device_mtbf = Range{mtbf, mtbf},
                            .restart = Range{restart, restart},
                            .checkpoint_bandwidth = Range{bandwidth, bandwidth},
                            .watts = std::nullopt});
  };
  const RunCost cost = cost_of(step(), asked), best = at(1e12, 1.9, 5e4 * kHour, 300, 40e9),
                worst = at(2e12, 2.5, 1e4 * kHour, 1200, 10e9);
  CHECK(cost.elapsed->low == best.elapsed->low);
  CHECK(cost.elapsed->high == worst.elapsed->high);
  CHECK(cost.goodput->high == best.goodput->low);
  CHECK(cost.goodput->low == worst.goodput->low);
  CHECK(cost.money->low == best.money->low);
  CHECK(cost.money->high == worst.money->high);
  CHECK(cost.failures->low == best.failures->low);
  CHECK(cost.failures->high == worst.failures->low);
}

TEST_CASE("figures with units, alone and in ranges") {
  const auto read = [](const char* text, Quantity q) { return read_range(text, q, "--test"); };
  CHECK(read("15T", Quantity::tokens) == Range{15e12, 15e12});
  CHECK(read("300B..1T", Quantity::tokens) == Range{3e11, 1e12});
  CHECK(read("1..2T", Quantity::tokens) == Range{1e12, 2e12});
  CHECK(read("2000h", Quantity::seconds) == Range{7.2e6, 7.2e6});
  CHECK(read("5..10min", Quantity::seconds) == Range{300, 600});
  CHECK(read("40GB/s", Quantity::bytes_per_second) == Range{4e10, 4e10});
  CHECK(read("1.9..2.5", Quantity::plain) == Range{1.9, 2.5});
  for (const char* wrong :
       {"", "T", "-1T", "0", "1e400", "nan", "inf", "1T..", "..1T", "2T..1T", "1X", "1T1", "1..2..3", "1 T"}) {
    INFO("\"" << wrong << "\"");
    CHECK_THROWS_AS(read(wrong, Quantity::tokens), Error);
  }
  // A rate without a unit says nothing.
  CHECK_THROWS_WITH(read("40", Quantity::bytes_per_second), Catch::Contains("[--test]") && Catch::Contains("GB/s"));
}
