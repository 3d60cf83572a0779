// How often a comparison is wrong, by simulation with known truth: whole result files of points whose step
// times are drawn with and without a slow-down, judged as mbench compare judges them.
#include <chrono>
#include <functional>
#include <random>

#include "reports/compare.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;

namespace {

using Random = std::mt19937_64;
using Noise = std::function<double(Random&)>;  // a factor of median 1 and spread about 2 %

double normal(Random& random) {
  return 1 + 0.02 * std::normal_distribution<double>()(random);
}
// Student's t with 3 degrees of freedom: its standard deviation is sqrt(3) times its scale.
double heavy_tailed(Random& random) {
  return 1 + 0.02 / std::sqrt(3.0) * std::student_t_distribution<double>(3)(random);
}
// Two states 4 % apart, as of a clock that steps, each with a little jitter.
double bimodal(Random& random) {
  const double state = std::bernoulli_distribution(0.5)(random) ? 0.98 : 1.02;
  return state + 0.003 * std::normal_distribution<double>()(random);
}

struct Counts {
  int slower = 0, faster = 0, ambiguous = 0, same = 0;
};

// `points` comparisons in files of `per_file`, the new side slower by `factor`.
Counts simulate(const Noise& noise, double factor, double threshold, int points, int per_file, int samples) {
  Random random(4711);
  Counts counts;
  for (int done = 0; done < points; done += per_file) {
    ResultFile now, base;
    now.environment = base.environment = sample::environment();
    for (int p = 0; p < per_file; ++p) {
      PointResult r = sample::point(1, 1, p + 1, "baseline");
      std::vector<double> x, y;
      for (int i = 0; i < samples; ++i)
        x.push_back(100 * factor * noise(random)), y.push_back(100 * noise(random));
      now.points.push_back(r);
      now.points.back().iteration_ms = statistics_of(x);
      base.points.push_back(r);
      base.points.back().iteration_ms = statistics_of(y);
    }
    Thresholds thresholds;
    thresholds.time = threshold;
    for (const PointComparison& point : compare_results(now, base, thresholds).points) {
      const Verdict verdict = point.metrics.at(0).verdict;
      counts.slower += verdict == Verdict::slower;
      counts.faster += verdict == Verdict::faster;
      counts.ambiguous += verdict == Verdict::ambiguous;
      counts.same += verdict == Verdict::same;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("no change with 2 % of noise raises at most 1 % of false alarms in 2,000 comparisons") {
  const std::pair<const char*, Noise> noises[] = {
      {"normal", normal}, {"heavy-tailed", heavy_tailed}, {"bimodal", bimodal}};
  for (const auto& [name, noise] : noises)
    for (const double threshold : {0.05, 0.02, 0.0}) {
      const Counts counts = simulate(noise, 1, threshold, 2000, 20, 30);
      INFO(name << ", threshold " << threshold << ": slower " << counts.slower << ", faster " << counts.faster
                << ", ambiguous " << counts.ambiguous << ", same " << counts.same);
      CHECK(counts.slower + counts.faster <= 20);
      if (threshold == 0.05 && name != std::string("bimodal")) CHECK(counts.same >= 1980);
    }
}

TEST_CASE("without the correction for many points each single comparison keeps its level") {
  const Counts counts = simulate(normal, 1, 0, 1000, 1, 30);  // one point per file, no threshold
  CHECK(counts.slower + counts.faster <= 10);
}

TEST_CASE("a slow-down of 5 % in 30 samples is found at a threshold of 2 %") {
  const std::pair<const char*, Noise> noises[] = {{"normal", normal}, {"heavy-tailed", heavy_tailed}};
  for (const auto& [name, noise] : noises) {
    const Counts counts = simulate(noise, 1.05, 0.02, 1000, 20, 30);
    INFO(name << ": slower " << counts.slower << ", ambiguous " << counts.ambiguous << ", same "
              << counts.same);
    CHECK(counts.slower >= 950);
    CHECK(counts.faster == 0);
  }
}

TEST_CASE("the default threshold finds a slow-down of 8 % and a speed-up of the same size") {
  CHECK(simulate(normal, 1.08, 0.05, 500, 20, 30).slower >= 475);
  CHECK(simulate(normal, 1 / 1.08, 0.05, 500, 20, 30).faster >= 475);
}

TEST_CASE("two states whose shares are even leave the median undecided, and the verdict says so") {
  const Counts counts = simulate(bimodal, 1.05, 0.02, 500, 20, 30);
  CHECK(counts.faster == 0);
  CHECK(counts.same == 0);
  CHECK(counts.slower + counts.ambiguous == 500);
}

TEST_CASE("10,000 points compare in a moment") {
  Random random(3);
  ResultFile file;
  file.environment = sample::environment();
  for (int p = 0; p < 10000; ++p) {
    std::vector<double> samples;
    for (int i = 0; i < 30; ++i) samples.push_back(100 * normal(random));
    file.points.push_back(sample::measured(sample::point(1, 1, p + 1, "baseline"), samples, 100));
  }
  const auto start = std::chrono::steady_clock::now();
  const Comparison comparison = compare_results(file, file, {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  WARN("10,000 points in " << seconds << " s");
  CHECK_FALSE(comparison.regression());
#ifdef NDEBUG
  CHECK(seconds < 6);  // about 1 s on an idle core; the bound allows for a machine that is busy
#endif
}
