// Verdicts on what a user pays: the time of all steps, stalls in it, and what they look like.
#include <cmath>
#include <random>

#include "reports/gate/compare.h"
#include "reports/gate/compare_report.h"
#include "reports/gate/headline.h"
#include "reports/gate/pattern.h"
#include "reports/gate/time_verdict.h"
#include "reports/records/levels.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

// `factor`: of the i-th of n steps of 100 ms, under 2 % of noise.
template <class Factor>
std::vector<double> steps(unsigned seed, int n, Factor factor) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.02);
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) samples.push_back(100 * noise(random) * factor(i));
  return samples;
}
double level(int) {
  return 1;
}

ResultFile file_of(std::vector<double> samples) {
  ResultFile file;
  file.environment = sample::environment();
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), std::move(samples), 1000)};
  return file;
}

MetricComparison time_of(const std::vector<double>& now, const std::vector<double>& base) {
  const Comparison comparison = compare_results(file_of(now), file_of(base), {});
  REQUIRE(comparison.points.at(0).metrics.at(0).metric == "time");
  return comparison.points[0].metrics[0];
}

std::string pattern(const std::vector<double>& samples) {
  return pattern_of(samples, slow_steps(samples));
}

}  // namespace

TEST_CASE("paid: a stall of every fourth step is slower, and both intervals are printed") {
  const auto stalling = [](int i) { return i % 4 == 3 ? 3.0 : 1.0; };
  for (unsigned seed = 0; seed < 15; ++seed) {
    const MetricComparison c = time_of(steps(seed, 60, stalling), steps(seed + 100, 60, level));
    CHECK(c.verdict == Verdict::slower);
    CHECK_THAT(c.reason, Contains("every 4th step at 3.0x, none in the baseline"));
    REQUIRE(c.mean);
    CHECK(c.mean->ratio == Approx(1.5).epsilon(0.03));
    CHECK(*c.ratio == Approx(1).epsilon(0.03));
    CHECK(time_of(steps(seed + 100, 60, level), steps(seed, 60, stalling)).verdict == Verdict::faster);
    CHECK(time_of(steps(seed, 60, stalling), steps(seed + 50, 60, stalling)).verdict == Verdict::same);
  }
  const Comparison comparison = compare_results(file_of(steps(1, 60, stalling)), file_of(steps(2, 60, level)), {});
  CHECK(comparison.regression());
  const std::string md = render_comparison(comparison, "md");
  CHECK_THAT(md, Contains("Median's change") && Contains("99 % interval") && Contains("every 4th step at 3.0x"));
  CHECK_THAT(md, Catch::StartsWith("## mbench: 5"));
  const auto json = nlohmann::json::parse(render_comparison(comparison, "json"));
  CHECK(json.at("points")[0].at("metrics")[0].at("mean").at("ratio") > 1.4);
  CHECK(json.at("points")[0].at("metrics")[0].at("ratio") < 1.1);
  CHECK_THAT(render_comparison(comparison, "junit"), Contains("slower: mean +") && Contains(", median "));
}

TEST_CASE(
    "paid: one spike is no regression, and what it costs beyond the bound is left open with a number of samples") {
  for (const int at : {0, 7, 29}) {
    const auto spike = [&](double size) { return steps(3, 30, [&](int i) { return i == at ? size : 1.0; }); };
    const MetricComparison small = time_of(spike(2.5), steps(4, 30, level));
    CHECK(small.verdict == Verdict::same);
    CHECK_THAT(small.reason, Contains(at == 0 ? "warm-up" : "once: a spike"));
    const MetricComparison large = time_of(spike(6), steps(4, 30, level));
    CHECK(large.verdict == Verdict::ambiguous);
    if (at > 0)
      CHECK_THAT(large.reason, Contains("step " + std::to_string(at + 1) + " at ") && Contains("samples would decide"));
  }
}

TEST_CASE("paid: stalls too few to tell are ambiguous, with their share and how many samples would decide") {
  const auto stalls = steps(5, 30, [](int i) { return i == 4 || i == 13 || i == 22 || i == 24 ? 2.0 : 1.0; });
  const MetricComparison c = time_of(stalls, steps(6, 30, level));
  CHECK(c.verdict == Verdict::ambiguous);
  CHECK_THAT(c.reason, Contains("13 % of steps at 2.0x, none in the baseline") && Contains("samples would decide"));
}

TEST_CASE("paid: stalls that a faster step hides are slower, and a slower step that fewer stalls hide is ambiguous") {
  const auto hidden = steps(7, 60, [](int i) { return i % 5 == 4 ? 2.0 : 0.9; });
  const MetricComparison slower = time_of(hidden, steps(8, 60, level));
  CHECK(slower.verdict == Verdict::slower);
  CHECK_THAT(slower.reason, Contains("every 5th step at 2.2x") && Contains("the mean step; the median is -"));
  const MetricComparison conflict = time_of(steps(8, 60, level), hidden);
  CHECK(conflict.verdict == Verdict::ambiguous);
  CHECK_THAT(conflict.reason, Contains("the median step is +") && Contains("the mean -"));
}

TEST_CASE("paid: no run is faster whose steps together take longer") {
  // Most steps are 6 % faster; three at random cost all of it and 10 % more, too few to say more than that.
  const auto hidden = [](int i) { return i == 4 || i == 13 || i == 27 ? 2.54 : 0.94; };
  const MetricComparison c = time_of(steps(7, 30, hidden), steps(8, 30, level));
  CHECK(c.verdict == Verdict::ambiguous);
  CHECK_THAT(c.reason, Contains("steps of one kind became slower, others faster") &&
                           Contains("10 % of steps at 2.6x, none in the baseline"));
  // One spike that costs less than the others gain is no reason.
  const auto spike = [](int i) { return i == 13 ? 1.9 : 0.94; };
  CHECK(time_of(steps(7, 30, spike), steps(8, 30, level)).verdict == Verdict::faster);
}

TEST_CASE("paid: a stall every 4th step in both is no change, wherever in it a run begins") {
  const auto from = [](int first) { return [first](int i) { return (i + first) % 4 == 0 ? 3.0 : 1.0; }; };
  for (unsigned seed = 0; seed < 20; ++seed)  // eight stalls in 30 steps, and seven
    CHECK_FALSE(is_regression(time_of(steps(seed, 30, from(0)), steps(seed + 100, 30, from(2))).verdict));
}

TEST_CASE("paid: one long episode is left open, with its pattern and a number of samples") {
  struct Episode {
    int from, to;
    double size;
    const char* named;
  };
  for (const Episode& e : {Episode{24, 36, 1.35, "steps 25 to 36 at 1.3"}, Episode{20, 22, 2.5, "steps 21 to 22 at 2."},
                           Episode{48, 60, 1.35, "from step 49 on +3"}, Episode{0, 12, 1.35, "until step 12 +3"},
                           Episode{54, 60, 3, "from step 55 on at "}})
    for (unsigned seed = 0; seed < 10; ++seed) {
      const auto now = steps(seed, 60, [&](int i) { return i >= e.from && i < e.to ? e.size : 1.0; });
      const MetricComparison c = time_of(now, steps(seed + 100, 60, level));
      INFO(e.named << ", seed " << seed << ": " << c.reason);
      CHECK(c.verdict == Verdict::ambiguous);
      CHECK_THAT(c.reason,
                 Contains(e.named) && Contains("in one episode, which may come again; about 480 samples would decide"));
      CHECK(paid_mean(now) == Approx(mean_of(now).mean));  // no spike, and so in the trend
    }
}

TEST_CASE("paid: a mode is seen, also where some of it lies further out, and next to a spike") {
  const auto every_fourth = steps(5, 60, [](int i) { return i % 4 == 1 ? 1.15 : 1.0; });
  CHECK_THAT(pattern(every_fourth), Contains("every 4th step at 1.1"));
  const auto mode = [](int i) { return i * 7 % 25 < 7 ? 1.15 : 1.0; };  // 28 %
  CHECK_THAT(pattern(steps(6, 50, mode)), Contains("28 % of steps at 1.1"));
  CHECK_THAT(pattern(steps(6, 50, [&](int i) { return i == 1 ? 4.0 : mode(i); })), Contains("% of steps at 1.1"));
  CHECK(pattern(steps(7, 60, level)).empty());
  // Between 2/3 of the threshold and the threshold.
  const MetricComparison near =
      time_of(steps(8, 200, [](int i) { return i % 4 == 1 ? 1.16 : 1.0; }), steps(9, 200, level));
  CHECK(near.verdict == Verdict::ambiguous);
  CHECK_THAT(near.reason, Contains("nearly the threshold"));
}

TEST_CASE("paid: levels that last within a run leave a change open that they explain") {
  const auto states = [](int i) { return i / 15 % 2 ? 1.06 : 1.0; };
  const MetricComparison c = time_of(steps(1, 60, [](int i) { return i < 42 ? 1.06 : 1.0; }), steps(2, 60, level));
  CHECK(c.verdict == Verdict::ambiguous);
  CHECK_THAT(c.reason, Contains("levels that last differ by ") && Contains("samples would decide"));
  CHECK(time_of(steps(3, 60, [&](int i) { return 1.3 * states(i); }), steps(4, 60, states)).verdict == Verdict::slower);
}

TEST_CASE("paid: too few samples for the points that are compared say how many would do") {
  TimeTest test;
  const std::vector<double> base = {1.00, 1.01, 1.02, 0.99, 0.98, 1.005}, now = {1.20, 1.21, 1.22, 1.19, 1.18, 1.205};
  const TimeEvidence e = test.weigh(now, base);
  CHECK(judge_time(e, 0.05).verdict == TimeVerdict::slower);
  const TimeJudgement of_many = judge_time(e, 50 * e.p_value, 1, 0.05);
  CHECK(of_many.verdict == TimeVerdict::ambiguous);
  CHECK_THAT(of_many.reason, Contains("too few samples for so many points; about 20 samples would decide"));
}

TEST_CASE("paid: a soak is judged by its windows' mean steps") {
  const auto soak = [](double stalls) {
    ResultFile file = file_of(steps(9, 40, level));
    PointResult& r = file.points[0];
    r.soak.emplace();
    for (const double median : r.iteration_ms->samples) {
      SoakWindow window;
      window.median_ms = median;
      window.samples_per_s = static_cast<double>(r.point.global_batch) / (median * stalls) * 1e3;
      r.soak->windows.push_back(window);
    }
    return file;
  };
  CHECK(compare_results(soak(1.1), soak(1), {}).points[0].metrics[0].verdict == Verdict::slower);
  CHECK(compare_results(soak(1), soak(1), {}).points[0].metrics[0].verdict == Verdict::same);
}

TEST_CASE("paid: patterns are named") {
  CHECK(pattern(steps(1, 60, level)).empty());
  CHECK(pattern(steps(1, 60, [](int i) { return i % 4 == 3 ? 3.0 : 1; })) == "every 4th step at 3.0x");
  CHECK(pattern(steps(1, 64, [](int i) { return i % 3 == 0 ? 2.0 : 1; })) == "every 3rd step at 2.0x");
  CHECK(pattern(steps(1, 40, [](int i) { return i % 2 ? 3.0 : 1; })) == "every 2nd step at 3.0x");
  CHECK(pattern(steps(1, 40, [](int i) { return i == 3 || i == 8 || i == 9 || i == 30 ? 3.0 : 1; })) ==
        "10 % of steps at 3.0x");
  CHECK(pattern(steps(1, 40, [](int i) { return i == 11 ? 2.0 : 1; })) == "step 12 at 2.0x, once");
  CHECK(pattern(steps(1, 40, [](int i) { return i >= 20 && i < 24 ? 2.0 : 1; })) == "steps 21 to 24 at 2.0x, once");
  CHECK_THAT(pattern(steps(1, 40, [](int i) { return i >= 11 ? 1.08 : 1; })), Contains("from step 12 on +"));
  CHECK_THAT(pattern(steps(1, 60, [](int i) { return 1 + 0.003 * i; })), Contains("rising 0.") && Contains("% a step"));
}

TEST_CASE("paid: slow steps by hand") {
  std::vector<double> samples(20, 10.0);
  samples[3] = 20, samples[4] = 40, samples[12] = 30;
  const SlowSteps slow = slow_steps(samples);
  CHECK(slow.at == std::vector<std::size_t>{3, 4, 12});
  CHECK(slow.episodes == 2);
  CHECK(slow.body == Approx(10));
  CHECK(slow.size == Approx(3));
  CHECK(slow.cost == Approx(6.0 / 20));
  CHECK(slow.period == 0);
  CHECK(paid_mean(samples) == Approx(13));
  samples = std::vector<double>(30, 10.0);
  samples[0] = samples[1] = 15;
  CHECK(slow_steps(samples).warm_up == 2);
  CHECK(paid_mean(samples) == Approx(10));
}

TEST_CASE("paid: Student's t and the ratio of means, by tables") {
  CHECK(student_quantile(0.01, 10) == Approx(3.169).epsilon(1e-3));
  CHECK(student_quantile(0.05, 1) == Approx(12.706).epsilon(1e-3));
  CHECK(student_tails(2.0, 58) == Approx(0.05017).epsilon(1e-3));
  const MeanRatio r = mean_ratio(mean_of({11, 12, 13}), mean_of({9, 10, 11}));
  CHECK(r.ratio == Approx(1.2));
  CHECK(r.deviations == Approx(std::log(1.2) / std::sqrt(1.0 / 3 / 144 + 1.0 / 3 / 100)));
  CHECK(mean_ratio(mean_of({2, 2}), mean_of({2, 2})).p_value == 1);
  CHECK(mean_ratio(mean_of({3, 3}), mean_of({2, 2})).p_value == 0);
}

TEST_CASE("paid: a step, a line and neither") {
  std::vector<double> flat, step, line;
  for (int i = 0; i < 20; ++i) {
    const double noise = 0.1 * ((i * 7) % 5 - 2);
    flat.push_back(10 + noise), step.push_back((i < 8 ? 10 : 12) + noise), line.push_back(10 + 0.2 * i + noise);
  }
  CHECK(levels_of(flat, 3, true).is_constant());
  CHECK(levels_of(step, 3, true).is_step());
  CHECK(levels_of(step, 3, true).at == 8);
  CHECK(levels_of(line, 3, true).is_line());
  CHECK(levels_of(line, 3, true).slope == Approx(0.2).epsilon(0.1));
}

TEST_CASE("paid: the answer comes first: how much, where, on what, against what") {
  ResultFile now = sample::strategies(), base = sample::strategies();
  const auto scaled = [](PointResult& r, double factor) {
    if (!r.iteration_ms) return;
    std::vector<double> samples = r.iteration_ms->samples;
    for (double& x : samples) x *= factor;
    r.iteration_ms = statistics_of(samples);
  };
  const auto again = [](ResultFile& file) {  // as many samples as twenty points need
    for (PointResult& r : file.points)
      if (r.iteration_ms) {
        std::vector<double> samples;
        for (int i = 0; i < 5; ++i)
          samples.insert(samples.end(), r.iteration_ms->samples.begin(), r.iteration_ms->samples.end());
        r.iteration_ms = statistics_of(samples);
      }
  };
  again(now), again(base);
  const auto first_line = [&](const CompareOptions& options = {}) {
    return headline_of(compare_results(now, base, options));
  };
  CHECK(first_line() == "no regression in 20 points");
  for (PointResult& r : now.points)
    if (r.point.strategy == "baseline") scaled(r, 1.07);
  CHECK(first_line() == "7.0 % slower: strategy baseline (4 of 20 points)");
  now.points[1].peak_memory_mib = *base.points[1].peak_memory_mib * 2;
  CHECK_THAT(first_line(), Contains("7.0 % slower: strategy baseline (4 of 20 points); 1,824,522,240 bytes larger: tp "
                                    "4, pp 2, seq 512, strategy sequence_parallel (1 of 20 points)"));
  now.points.resize(2), base.points.resize(2);
  CHECK_THAT(first_line(), Contains("slower: strategy baseline (1 of 2 points)"));
  now = base;
  for (ResultFile* file : {&now, &base})
    for (PointResult& r : file->points) r.iteration_ms = statistics_of({1, 2, 3});
  CHECK(first_line() == "undecided in 2 of 2 points");
  CompareOptions all_open;
  all_open.fail_on = {Verdict::ambiguous};
  CHECK(first_line(all_open) == "undecided in 2 of 2 points");
  now.points[0].iteration_ms = base.points[0].iteration_ms = statistics_of(std::vector<double>(10, 5.0));
  CHECK(first_line() == "no regression, undecided in 1 of 2 points");
  CompareOptions strict;
  strict.fail_on = {Verdict::ambiguous};
  CHECK_THAT(first_line(strict), Contains("no regression, but ambiguous: ") && Contains("(1 of 2 points)"));
  Comparison failing = compare_results(now, base, strict);
  failing.accept = {"mbench baseline add new --dir baselines"};
  CHECK_THAT(render_comparison(failing, "md"),
             Contains("If this is meant, accept it:") && Contains("    mbench baseline add new --dir baselines\n"));
}

TEST_CASE("paid: which parts of a step and of memory changed") {
  ResultFile now = file_of(steps(1, 30, level)), base = now;
  std::vector<double> slower = steps(2, 30, [](int) { return 1.38; });
  now.points[0].iteration_ms = statistics_of(slower);
  now.points[0].time_anatomy_ms->ms[static_cast<std::size_t>(TimePart::communication_tp)] += 38;
  now.points[0].time_anatomy_ms->ms[static_cast<std::size_t>(TimePart::gemms)] += 0.1;  // noise
  now.points[0].memory_anatomy_mib->mib[static_cast<std::size_t>(Category::activations)] += 1.0 / 256;
  now.points[0].peak_memory_mib = *base.points[0].peak_memory_mib + 1.0 / 256;
  CompareOptions to_the_byte;
  to_the_byte.thresholds.memory = 0;
  const Comparison comparison = compare_results(now, base, to_the_byte);
  const std::string md = render_comparison(comparison, "md");
  CHECK_THAT(md, Contains(", time: tp communication +38.0 ms, the rest the same\n"));
  CHECK_THAT(md, Contains(", memory: activations +4,096 bytes, the rest the same\n"));
  CHECK_THAT(md, Contains("(+4,096 bytes)"));
  CHECK_THAT(render_comparison(comparison, "junit"), Contains("tp communication +38.0 ms") && Contains("+4,096 bytes"));
  const auto json = nlohmann::json::parse(render_comparison(comparison, "json"));
  CHECK(json.at("points")[0].at("metrics")[0].at("parts")[0].at("part") == "tp communication");
  CHECK_THAT(render_comparison(compare_results(base, base, {}), "md"), !Contains("by part"));
  SECTION("bytes of collectives by axis, whether or not time is compared") {
    for (ResultFile* file : {&now, &base})
      file->points[0].communication_mib = CommunicationByAxis{{96, 0, 24, 0, 1, 0}};
    CHECK_THAT(render_comparison(compare_results(now, base, {}), "md"), !Contains("bytes communicated"));
    now.points[0].communication_mib->mib[0] += 1.0 / 256;
    now.points[0].communication_mib->mib[4] = 0;
    for (const std::vector<std::string>& metrics : {std::vector<std::string>{"time", "memory"}, {"memory"}}) {
      CompareOptions options;
      options.metrics = metrics;
      const Comparison compared = compare_results(now, base, options);
      CHECK_THAT(render_comparison(compared, "md"),
                 Contains(", bytes communicated: pp -1,048,576 bytes, tp +4,096 bytes, the rest the same\n"));
      CHECK(nlohmann::json::parse(render_comparison(compared, "json"))
                .at("points")[0]
                .at("communication")[0]
                .at("part") == "pp");
    }
    CHECK_THAT(render_comparison(compare_results(now, base, {}), "junit"),
               Contains("bytes communicated: pp -1,048,576"));
  }
  SECTION("tensors at the peak, and the ranks that changed otherwise than most") {
    for (ResultFile* file : {&now, &base}) {
      PointResult& r = file->points[0];
      r.peak_tensors_mib = {{"linear output", 100}, {"norm output", 50}, {"all others", 7}};
      r.peak_memory_by_rank_mib = {300, 300, 290};
      r.compute_ms_by_rank = {{80, 1, {80}}, {81, 1, {81}}, {79, 1, {79}}};
    }
    PointResult& r = now.points[0];
    r.peak_tensors_mib = {{"linear output", 100}, {"attention output", 25}, {"norm output", 49.5}, {"all others", 7}};
    for (double& mib : r.peak_memory_by_rank_mib) mib += 1.0 / 256;
    for (StepParts& rank : r.compute_ms_by_rank) rank.median += 2;  // all alike
    r.compute_ms_by_rank[1].median += 20;
    const std::string text = render_comparison(compare_results(now, base, {}), "md");
    CHECK_THAT(text,
               Contains(", memory by tensor: attention output +26,214,400 bytes, norm output -524,288 bytes, the rest "
                        "the same\n"));
    CHECK_THAT(text, Contains(", memory by rank: all ranks +4,096 bytes\n"));
    CHECK_THAT(text, Contains(", computation by rank: rank 1 +22.0 ms, the rest the same\n"));
    r.peak_memory_by_rank_mib[1] += 1;
    CHECK_THAT(
        render_comparison(compare_results(now, base, {}), "md"),
        Contains(", memory by rank: rank 1 +1,052,672 bytes, rank 0 +4,096 bytes, rank 2 +4,096 bytes, the rest"));
    CHECK_THAT(render_comparison(compare_results(now, base, {}), "junit"), Contains("by tensor: attention output +26"));
  }
  SECTION("faults of devices flag the point") {
    now.points[0].device_faults = "Xid 79 on rank 3 after 80 min";
    CHECK_THAT(render_comparison(compare_results(now, base, {}), "md"),
               Contains("new: faulty: the devices reported Xid 79 on rank 3 after 80 min"));
  }
}
