// How often a comparison is wrong, by simulation with known truth: whole result files of points whose step
// times are drawn with and without a slow-down, judged as mbench compare judges them.
#include <cmath>
#include <functional>
#include <random>

#include "reports/gate/compare.h"
#include "reports/gate/time_verdict.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/pace.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::reports;

namespace {

using Random = std::mt19937_64;
using Series = std::function<std::vector<double>(Random&, int)>;  // so many factors, spread about 2 % around 1

double gauss(Random& random) {
  return std::normal_distribution<double>()(random);
}

// Independent samples.
template <class Sample>
Series each(Sample sample) {
  return [sample](Random& random, int n) {
    std::vector<double> v;
    for (int i = 0; i < n; ++i) v.push_back(sample(random));
    return v;
  };
}
const Series kNormal = each([](Random& random) { return 1 + 0.02 * gauss(random); });
// Student's t with 3 degrees of freedom: its standard deviation is sqrt(3) times its scale.
const Series kHeavyTailed =
    each([](Random& random) { return 1 + 0.02 / std::sqrt(3.0) * std::student_t_distribution<double>(3)(random); });
// Two states 4 % apart, as of a clock that steps, each with a little jitter.
const Series kBimodal = each(
    [](Random& random) { return (std::bernoulli_distribution(0.5)(random) ? 0.98 : 1.02) + 0.003 * gauss(random); });

// Drifts. Each step remembers the last: a stationary process of standard deviation 2 %.
Series autoregressive(double memory) {
  return [memory](Random& random, int n) {
    std::vector<double> v;
    double x = gauss(random);
    for (int i = 0; i < n; ++i) {
      v.push_back(1 + 0.02 * x);
      x = memory * x + std::sqrt(1 - memory * memory) * gauss(random);
    }
    return v;
  };
}
// A random walk that ends 2 % off (standard deviation), under 1 % of jitter.
std::vector<double> walking(Random& random, int n) {
  std::vector<double> v;
  double x = 0;
  for (int i = 0; i < n; ++i) {
    v.push_back(1 + x + 0.01 * gauss(random));
    x += 0.02 / std::sqrt(n) * gauss(random);
  }
  return v;
}
// Up or down by up to 4 % in a straight line, under 1 % of jitter: a device that warms up or cools down.
std::vector<double> sloping(Random& random, int n) {
  const double slope = std::uniform_real_distribution<double>(-0.04, 0.04)(random);
  std::vector<double> v;
  for (int i = 0; i < n; ++i) v.push_back(1 + slope * i / n + 0.01 * gauss(random));
  return v;
}
// A wave of any phase, one and a half runs long, of 1.4 % under 1.4 % of jitter.
std::vector<double> waving(Random& random, int n) {
  const double phase = std::uniform_real_distribution<double>(0, 6.2832)(random);
  std::vector<double> v;
  for (int i = 0; i < n; ++i) v.push_back(1 + 0.02 * std::sin(phase + 6.2832 * i / n / 1.5) + 0.014 * gauss(random));
  return v;
}

struct Named {
  const char* name;
  Series series;
};
const Named kIndependent[] = {{"normal", kNormal}, {"heavy-tailed", kHeavyTailed}, {"bimodal", kBimodal}};
const Named kDrifting[] = {{"autoregressive 0.5", autoregressive(0.5)},
                           {"autoregressive 0.9", autoregressive(0.9)},
                           {"random walk", walking},
                           {"slope", sloping},
                           {"wave", waving}};

// How many comparisons of a kind, of which shares are held. Under a sanitizer one takes ten times as long: there they are an eighth, for
// the code that runs in them, and of so few a handful more or less is chance.
constexpr int kMany = test::kSanitized ? 240 : 2000;
constexpr int kFew = kMany / 4;
constexpr int kChance = test::kSanitized ? 5 : 0;
int at_most(double share, int of) {
  return static_cast<int>(std::lround(share * of)) + kChance;
}
int at_least(double share, int of) {
  return static_cast<int>(std::lround(share * of)) - kChance;
}

struct Counts {
  int slower = 0, faster = 0, ambiguous = 0, same = 0;
  std::string text(const std::string& name) const {
    return name + ": slower " + std::to_string(slower) + ", faster " + std::to_string(faster) + ", ambiguous " +
           std::to_string(ambiguous) + ", same " + std::to_string(same);
  }
};

// `points` comparisons in files of `per_file`, the new side slower by `factor`.
Counts simulate(const Series& series, double factor, double threshold, int points, int per_file, int samples) {
  Random random(4711);
  Counts counts;
  for (int done = 0; done < points; done += per_file) {
    ResultFile now, base;
    now.environment = base.environment = sample::environment();
    for (int p = 0; p < per_file; ++p) {
      PointResult r = sample::point(1, 1, p + 1, "baseline");
      std::vector<double> x = series(random, samples), y = series(random, samples);
      for (double& v : x) v *= 100 * factor;
      for (double& v : y) v *= 100;
      now.points.push_back(r);
      now.points.back().iteration_ms = statistics_of(x);
      base.points.push_back(r);
      base.points.back().iteration_ms = statistics_of(y);
    }
    CompareOptions options;
    options.thresholds.time = threshold;
    for (const PointComparison& point : compare_results(now, base, options).points) {
      const Verdict verdict = point.metrics.at(0).verdict;
      counts.slower += verdict == Verdict::slower;
      counts.faster += verdict == Verdict::faster;
      counts.ambiguous += verdict == Verdict::ambiguous;
      counts.same += verdict == Verdict::same;
    }
  }
  return counts;
}

// The same for single comparisons, without a correction for their number.
Counts simulate_alone(const Series& series, double factor, double threshold, int runs, int samples) {
  Random random(4711);
  Counts counts;
  TimeTest test;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> x = series(random, samples);
    for (double& v : x) v *= factor;
    const TimeEvidence evidence = test.weigh(x, series(random, samples));
    const TimeVerdict verdict = judge_time(evidence, threshold).verdict;
    counts.slower += verdict == TimeVerdict::slower;
    counts.faster += verdict == TimeVerdict::faster;
    counts.ambiguous += verdict == TimeVerdict::ambiguous;
    counts.same += verdict == TimeVerdict::same;
  }
  return counts;
}

std::vector<Named> all_noises() {
  std::vector<Named> all(std::begin(kIndependent), std::end(kIndependent));
  all.insert(all.end(), std::begin(kDrifting), std::end(kDrifting));
  return all;
}

}  // namespace

TEST_CASE("no change with 2 % of noise raises at most 1 % of false alarms in 2,000 comparisons") {
  for (const auto& [name, series] : all_noises()) {
    const Counts files = simulate(series, 1, 0.05, kMany, 20, 30);
    INFO(files.text(name));
    CHECK(files.slower + files.faster <= at_most(0.01, kMany));
    const Counts alone = simulate_alone(series, 1, 0.05, kMany, 30);
    INFO(alone.text(name + std::string(", alone")));
    CHECK(alone.slower + alone.faster <= at_most(0.01, kMany));
  }
}

TEST_CASE("no change of independent samples is called the same") {
  for (const auto& [name, series] : kIndependent) {
    const Counts counts = simulate(series, 1, 0.05, kMany, 20, 30);
    INFO(counts.text(name));
    CHECK(counts.same >= at_least(0.9, kMany));
  }
}

TEST_CASE("independent noise raises at most 1 % of false alarms at any threshold") {
  for (const auto& [name, series] : kIndependent)
    for (const double threshold : {0.02, 0.005, 0.0}) {
      const Counts counts = simulate_alone(series, 1, threshold, kMany, 30);
      INFO(counts.text(name) << "; threshold " << threshold);
      CHECK(counts.slower + counts.faster <= at_most(0.01, kMany));
    }
}

TEST_CASE("the default threshold finds a slow-down of 5 % in 30 samples, in at least 95 %") {
  for (const auto& [name, series] : kIndependent) {
    const Counts slower = simulate(series, 1.05, 0.05, kMany, 20, 30);
    INFO(slower.text(name));
    CHECK(slower.slower >= at_least(0.95, kMany));
    CHECK(slower.faster == 0);
    const Counts faster = simulate(series, 1 / 1.05, 0.05, kMany, 20, 30);
    INFO(faster.text(name));
    CHECK(faster.faster >= at_least(0.95, kMany));
    CHECK(faster.slower == 0);
  }
}

TEST_CASE("a slow-down of 5 % under drift is found or left open, rarely taken for no change") {
  for (const auto& [name, series] : kDrifting) {
    const Counts counts = simulate(series, 1.05, 0.05, kMany / 2, 20, 30);
    INFO(counts.text(name));
    CHECK(counts.faster == 0);
    CHECK(counts.same <= at_most(0.12, kMany / 2));
  }
}

TEST_CASE(
    "half the noise in a drift of twenty steps' memory is hidden from a run of thirty, and alarms more "
    "often") {
  const auto slow = [](Random& random, int n) {
    const std::vector<double> drift = autoregressive(0.95)(random, n);
    std::vector<double> v;
    for (const double x : drift) v.push_back(1 + std::sqrt(0.5) * (x - 1 + 0.02 * gauss(random)));
    return v;
  };
  const Counts short_run = simulate_alone(slow, 1, 0.05, kMany, 30),
               long_run = simulate_alone(slow, 1, 0.05, kMany, 200);
  INFO(short_run.text("30 samples") << "\n" << long_run.text("200 samples"));
  CHECK(short_run.slower + short_run.faster <= at_most(0.03, kMany));  // docs/gate.md says 2.3 %
  CHECK(long_run.slower + long_run.faster <= at_most(0.01, kMany));
}

TEST_CASE("larger changes are found with fewer samples, and smaller ones with more") {
  CHECK(simulate(kNormal, 1.10, 0.05, kFew, 20, 15).slower >= at_least(0.95, kFew));
  CHECK(simulate(kNormal, 1.02, 0.02, kFew, 20, 200).slower >= at_least(0.95, kFew));
}

TEST_CASE("a change well below the threshold is the same, once there are samples to show it") {
  const Counts counts = simulate(kNormal, 1.02, 0.05, kFew, 20, 30);
  INFO(counts.text("2 %"));
  CHECK(counts.slower <= at_most(0.05, kFew));
  CHECK(simulate(kNormal, 1.02, 0.05, kFew, 20, 100).same >= at_least(0.99, kFew));
}

TEST_CASE("10,000 points compare in a moment") {
  constexpr int kPoints = test::kSanitized ? 500 : 10000;  // where no time is held, fewer will do
  Random random(3);
  ResultFile file;
  file.environment = sample::environment();
  for (int p = 0; p < kPoints; ++p) {
    std::vector<double> samples;
    for (int i = 0; i < 30; ++i) samples.push_back(100 * (1 + 0.02 * gauss(random)));
    file.points.push_back(sample::measured(sample::point(1, 1, p + 1, "baseline"), samples, 100));
  }
  Comparison comparison;
  const double seconds =
      test::idle_seconds([&] { return test::cpu_seconds([&] { comparison = compare_results(file, file, {}); }); });
  WARN(kPoints << " points in " << seconds << " s of an idle machine");
  CHECK_FALSE(comparison.regression());
#ifdef NDEBUG
  CHECK(seconds < test::allowed_seconds(6));  // about 2.5
#endif
}
