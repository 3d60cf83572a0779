// What a comparison concludes, refuses and prints.
#include "reports/gate/compare.h"

#include <cmath>

#include "engine/base/error.h"
#include "reports/gate/compare_report.h"
#include "reports/gate/junit.h"
#include "test/catch.h"
#include "test/reports/gate/one_point.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

MetricComparison metric(const Comparison& comparison, const std::string& name) {
  for (const MetricComparison& c : comparison.points.at(0).metrics)
    if (c.metric == name) return c;
  FAIL("no metric " << name);
  return {};
}

std::string refusal(const ResultFile& now, const ResultFile& base) {
  try {
    compare_results(now, base, {});
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "compared";
}

}  // namespace

TEST_CASE("what is not finite, or too large for digits, is said in words") {
  const double nan = std::nan(""), inf = HUGE_VAL;
  ResultFile base = one(), now = one();
  base.points[0].losses = {2.5, 2.25};
  const auto rendered = [&] {
    const Comparison comparison = compare_results(now, base, {});
    std::string all;
    for (const std::string format : {"md", "junit", "json"}) all += render_comparison(comparison, format);
    CHECK_THAT(all, !Contains("nan") && !Contains("inf ") && !Contains("inf%") && !Contains("+inf") &&
                        !Contains("000000000000000"));
    return all;
  };
  now.points[0].losses = {nan, 2.25};
  CHECK(metric(compare_results(now, base, {}), "loss").reason ==
        "the loss of step 1 of 2 is not a finite number, the baseline's is");
  CHECK_THAT(rendered(), Contains("not finite"));
  std::swap(now, base);
  CHECK(metric(compare_results(now, base, {}), "loss").reason ==
        "the loss of step 1 of 2 is a finite number, the baseline's is not");
  now.points[0].losses = base.points[0].losses = {nan, inf};
  CHECK(metric(compare_results(now, base, {}), "loss").verdict == Verdict::same);
  CHECK_THAT(rendered(), Contains("not finite"));
  now.points[0].losses = {1e308}, base.points[0].losses = {-1e308};
  CHECK_THAT(rendered(), Contains("so far from the baseline's"));
  now = one(100, 1e308), base = one();
  CHECK_THAT(rendered(), Contains("1e+308 MiB") && Contains("1e+305 times"));
  now = one(1e306), base = one();
  CHECK_THAT(rendered(), Contains("1e+304 times"));
}

TEST_CASE("a point that was cut short is no measurement, on either side") {
  ResultFile now = one(), base = one();
  now.points.push_back(sample::measured(sample::point(2, 2, 512, "full"), around(100), 1000));
  base.points.push_back(now.points.back());
  now.points[0] = not_run(now.points[0].point, Outcome::partial, "interrupted, after iteration 3 of 10");
  for (int side = 0; side < 2; ++side) {
    const Comparison comparison = compare_results(now, base, {});
    const MetricComparison c = comparison.points.at(0).metrics.at(0);
    CHECK(c.verdict == Verdict::not_comparable);
    CHECK_THAT(c.reason, Contains("cut short") && Contains(side ? "in the baseline" : "here") &&
                             Contains("interrupted, after iteration 3 of 10"));
    CHECK_FALSE(comparison.regression());
    std::swap(now, base);
  }
}

TEST_CASE("time: slower, faster, same, and what is in between") {
  const auto time = [](double ms) { return metric(compare_results(one(ms), one(100), {}), "time"); };
  CHECK(time(100).verdict == Verdict::same);
  CHECK(time(100).reason.empty());
  CHECK(time(104).verdict == Verdict::same);  // the interval excludes 5 %
  CHECK(time(104).reason == "slower by less than the threshold of 5 %");
  CHECK(time(96).reason == "faster by less than the threshold of 5 %");
  CHECK(time(108).verdict == Verdict::slower);
  CHECK(time(92).verdict == Verdict::faster);
  CHECK(time(105.05).verdict == Verdict::slower);  // a change as large as the threshold is found
  CHECK(time(95.15).verdict == Verdict::faster);
  const MetricComparison slower = time(108);
  CHECK(*slower.ratio == Approx(1.08).epsilon(0.001));
  CHECK(slower.interval->low > 1.05);
  CHECK(slower.interval->high < 1.1);
  CHECK(*slower.p_value < 0.01);
  CHECK(compare_results(one(108), one(100), {}).regression());
  CHECK_FALSE(compare_results(one(92), one(100), {}).regression());
}

TEST_CASE(
    "time: an interval that holds both no change and the threshold is ambiguous, and says what would "
    "decide") {
  ResultFile now = one(), base = one();
  std::vector<double> noisy;
  for (int i = 0; i < 12; ++i) noisy.push_back(100 + 9 * std::sin(2.4 * i));
  base.points[0].iteration_ms = statistics_of(noisy);
  for (double& x : noisy) x *= 1.03;
  now.points[0].iteration_ms = statistics_of(noisy);
  const Comparison comparison = compare_results(now, base, {});
  const MetricComparison time = metric(comparison, "time");
  CHECK(time.interval->low < 1);
  CHECK(time.interval->high > 1.05);
  CHECK(time.verdict == Verdict::ambiguous);
  CHECK_THAT(time.reason,
             Contains("holds both no change and the threshold; about ") && Contains("0 samples would decide"));
  CHECK_FALSE(comparison.regression());
  CHECK_FALSE(comparison.fails());
  CompareOptions strict;
  strict.fail_on = {verdict_named("ambiguous", "test")};
  CHECK(compare_results(now, base, strict).fails());
  CHECK_FALSE(compare_results(now, base, strict).regression());
  CHECK_THROWS_AS(verdict_named("ambigous", "test"), Error);
}

TEST_CASE("time: a slow-down of samples that drift is no verdict") {
  ResultFile now = one(), base = one();
  std::vector<double> drifting, noisy;
  for (int i = 0; i < 30; ++i)
    drifting.push_back(105.5 + 4 * std::sin(i / 8.0)), noisy.push_back(100 + 3 * std::sin(2.4 * i));
  now.points[0].iteration_ms = statistics_of(drifting);
  base.points[0].iteration_ms = statistics_of(noisy);
  const MetricComparison time = metric(compare_results(now, base, {}), "time");
  CHECK(time.verdict == Verdict::ambiguous);
  CHECK_THAT(time.reason, Contains("drift"));
}

TEST_CASE("time: a change that outgrows the drift of both runs is one, though single steps overlap") {
  const auto judged = [](double level) {
    ResultFile now = one(), base = one();
    std::vector<double> drifting, noisy;
    for (int i = 0; i < 30; ++i)
      drifting.push_back(level + 4 * std::sin(i / 8.0)), noisy.push_back(i == 7 ? 300 : 100 + 3 * std::sin(2.4 * i));
    now.points[0].iteration_ms = statistics_of(drifting);
    base.points[0].iteration_ms = statistics_of(noisy);
    return metric(compare_results(now, base, {}), "time");
  };
  CHECK(judged(175).verdict == Verdict::slower);
  CHECK(judged(57).verdict == Verdict::faster);
  // Beyond the threshold, but within three times what either drifts by.
  const MetricComparison little = judged(112);
  CHECK(little.verdict == Verdict::ambiguous);
  CHECK_THAT(little.reason, Contains("drift"));
}

TEST_CASE("too few samples are ambiguous, however large the change") {
  ResultFile now = one(), base = one();
  now.points[0].iteration_ms = statistics_of(around(300, 4));
  const MetricComparison four = metric(compare_results(now, base, {}), "time");
  CHECK(four.verdict == Verdict::ambiguous);
  CHECK(four.reason == "10 and 4 samples, need 5 on either side");
  now.points[0].iteration_ms = statistics_of(around(300, 5));
  base.points[0].iteration_ms = statistics_of(around(100, 5));
  CHECK(metric(compare_results(now, base, {}), "time").verdict == Verdict::slower);
  // Among many points five samples cannot be significant, and the reason says so.
  for (std::int64_t seq = 1; seq < 20; ++seq) {
    now.points.push_back(now.points[0]);
    now.points.back().id = std::to_string(seq);
    base.points.push_back(base.points[0]);
    base.points.back().id = std::to_string(seq);
  }
  const MetricComparison many = metric(compare_results(now, base, {}), "time");
  CHECK(many.verdict == Verdict::ambiguous);
  CHECK_THAT(many.reason, Contains("samples would decide"));
}

TEST_CASE("memory is compared to the byte unless a threshold is given") {
  const double byte = 1.0 / 1048576;
  const auto exactly = [](double mib) { return metric(compare_results(one(100, mib), one(), {}), "memory").verdict; };
  CHECK(exactly(1000) == Verdict::same);
  CHECK(exactly(1000 + byte) == Verdict::larger);
  CHECK(exactly(1000 - byte) == Verdict::smaller);
  const Comparison page = compare_results(one(100, 1000 + 4096 * byte), one(), {});
  CHECK_THAT(render_comparison(page, "md"), StartsWith("## mbench: 4,096 bytes larger: ") && Contains("memory 0 %"));
}

TEST_CASE("memory within a threshold is the same") {
  CompareOptions percent;
  set_threshold(percent.thresholds, "memory=1%");
  const auto memory = [&](double mib) { return metric(compare_results(one(100, mib), one(), percent), "memory"); };
  CHECK(memory(1000).verdict == Verdict::same);
  CHECK(memory(1000).reason.empty());
  CHECK(memory(1009).verdict == Verdict::same);
  CHECK(memory(1009).reason == "changed by less than the threshold");
  CHECK(memory(1011).verdict == Verdict::larger);
  CHECK(memory(985).verdict == Verdict::smaller);
  CHECK(compare_results(one(100, 1011), one(), {}).regression());
  CHECK_THAT(render_comparison(compare_results(one(100, 1009), one(), {}), "md"), Contains("+0.9 %"));
  CHECK(memory(1010).verdict == Verdict::larger);  // the threshold itself counts
  CompareOptions strict;
  set_threshold(strict.thresholds, "memory=0%");
  CHECK(metric(compare_results(one(100, 1000), one(), strict), "memory").verdict == Verdict::same);
  CHECK(metric(compare_results(one(100, 1000.001), one(), strict), "memory").verdict == Verdict::larger);
}

TEST_CASE("losses must agree within the tolerance of their precision") {
  ResultFile now = one();
  const auto loss = [&](double value, Precision precision) {
    ResultFile base = one();
    now.points[0].losses[1] = value;
    now.points[0].point.precision = base.points[0].point.precision = precision;
    return metric(compare_results(now, base, {}), "loss");
  };
  CHECK(loss(10.4112 * 1.001, Precision::fp16).verdict == Verdict::same);
  const MetricComparison changed = loss(10.4112 * 1.001, Precision::f32);
  CHECK(changed.verdict == Verdict::changed);
  CHECK(changed.reason == "step 2 of 3 differs by 0.1 %, tolerance 0.0001 %");
  CHECK(loss(10.4112 * 0.98, Precision::fp16).verdict == Verdict::changed);  // lower is no better
  CHECK(loss(NAN, Precision::fp16).verdict == Verdict::changed);
  CHECK(is_regression(Verdict::changed));
  CompareOptions wide;
  set_threshold(wide.thresholds, "loss=5%");
  now.points[0].losses[1] = 10.4112 * 1.04;
  CHECK(metric(compare_results(now, one(), wide), "loss").verdict == Verdict::same);
  CompareOptions exact;
  set_threshold(exact.thresholds, "loss=0%");
  CHECK(metric(compare_results(one(), one(), exact), "loss").verdict == Verdict::same);
  now.points[0].losses[1] = std::nextafter(10.4112, 11);
  CHECK(metric(compare_results(now, one(), exact), "loss").verdict == Verdict::changed);
  now.points[0].losses[1] = NAN;
  CHECK(metric(compare_results(now, one(), exact), "loss").verdict == Verdict::changed);
}

TEST_CASE("outcomes: what failed, what still fails, what works again") {
  const auto outcome = [](Outcome before, Outcome after) {
    ResultFile now = one(), base = one();
    if (before != Outcome::ok) base.points[0] = sample::failed(sample::point(4, 2, 512, "full"), before, "then");
    if (after != Outcome::ok) now.points[0] = sample::failed(sample::point(4, 2, 512, "full"), after, "now");
    return metric(compare_results(now, base, {}), "point");
  };
  for (const Outcome after : {Outcome::oom, Outcome::crashed, Outcome::wrong, Outcome::timeout, Outcome::infeasible,
                              Outcome::unsupported, Outcome::launch_failed})
    CHECK(outcome(Outcome::ok, after).verdict == Verdict::failed);
  CHECK(outcome(Outcome::ok, Outcome::oom).reason == "was ok, now OOM: now");
  CHECK(outcome(Outcome::oom, Outcome::crashed).verdict == Verdict::failed);
  CHECK(outcome(Outcome::crashed, Outcome::oom).verdict == Verdict::same);
  CHECK(outcome(Outcome::oom, Outcome::oom).verdict == Verdict::same);
  CHECK(outcome(Outcome::oom, Outcome::ok).verdict == Verdict::fixed);
  CHECK(is_regression(Verdict::failed));
}

TEST_CASE("a metric that the baseline has and the new result lacks is missing") {
  const ResultFile base = one();
  ResultFile now = one();
  now.points[0].peak_memory_mib.reset();
  const Comparison comparison = compare_results(now, base, {});
  CHECK(metric(comparison, "memory").verdict == Verdict::missing);
  CHECK_THAT(metric(comparison, "memory").reason, Contains("the baseline has its memory"));
  CHECK(metric(comparison, "time").verdict == Verdict::same);
  CHECK_FALSE(comparison.fails());
  CompareOptions strict;
  strict.fail_on = {Verdict::missing};
  CHECK(compare_results(now, base, strict).fails());
  now = one();
  now.points[0].iteration_ms.reset();
  CHECK(metric(compare_results(now, base, {}), "time").verdict == Verdict::missing);
  now = one();
  now.points[0].losses.clear();
  CHECK(metric(compare_results(now, base, {}), "loss").verdict == Verdict::missing);
}

TEST_CASE("files with nothing to compare are refused, with what lacks") {
  CompareOptions memory;
  memory.metrics = {"memory"};
  const auto without = [] {
    ResultFile file = one();
    file.points[0].peak_memory_mib.reset();
    return file;
  };
  CHECK_THROWS_WITH(compare_results(without(), one(), memory), Contains("the baseline has its memory"));
  CHECK_THROWS_WITH(compare_results(one(), without(), memory), Contains("the baseline has no memory"));
  CHECK_THROWS_WITH(compare_results(without(), without(), memory), Contains("neither side has memory"));
}

TEST_CASE("losses of fewer steps than the baseline's say so") {
  ResultFile now = one();
  now.points[0].losses.resize(1);
  const MetricComparison loss = metric(compare_results(now, one(), {}), "loss");
  CHECK(loss.verdict == Verdict::same);
  CHECK(loss.reason == "of 1 steps here and 3 in the baseline the first 1 are compared");
}

TEST_CASE("points of one side alone are listed and are no regression") {
  ResultFile now = one(), base = one();
  now.points.push_back(sample::measured(sample::point(1, 1, 99, ""), around(1), 1));
  base.points.push_back(sample::measured(sample::point(1, 1, 77, ""), around(1), 1));
  const Comparison comparison = compare_results(now, base, {});
  REQUIRE(comparison.points.size() == 3);
  CHECK(comparison.points[1].metrics[0].verdict == Verdict::added);
  CHECK_THAT(comparison.points[1].label, Contains("seq 99"));
  CHECK(comparison.points[2].metrics[0].verdict == Verdict::missing);
  CHECK_THAT(comparison.points[2].label, Contains("seq 77"));
  CHECK_FALSE(comparison.regression());
}

TEST_CASE("what cannot be compared is refused") {
  const ResultFile base = one();
  for (const char* key : {"cpu", "cores", "device"}) {
    ResultFile now = one();
    now.environment[key] = "other";
    CHECK_THAT(refusal(now, base), Contains(std::string("environment.") + key) && Contains("need the same hardware"));
    now.environment.erase(key);  // unknown is not the same
    CHECK_THAT(refusal(now, base), Contains("need the same hardware"));
  }
  ResultFile now = one();
  now.environment["flop_formula_version"] = 2;
  CHECK_THAT(refusal(now, base), Contains("flop_formula_version is 2"));
  now = one();
  now.points[0].simulated = true;
  CHECK_THAT(refusal(now, base), Contains("simulated here, measured in the baseline"));
  CHECK_THAT(refusal(base, now),
             Contains("measured here, simulated in the baseline: a simulation is no baseline for a measurement"));
  now = one();
  now.points[0].point.model = find_preset("gpt2-774m", "test");
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THAT(refusal(now, base), Contains("model is gpt2-774m here, gpt2-345m in the baseline"));
  now = one();
  now.points[0].point.precision = Precision::bf16;
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THAT(refusal(now, base), Contains("precision is bf16 here, fp16 in the baseline"));
  now = one();
  now.points[0].point.device = "cpu";
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THAT(refusal(now, base), Contains("device is cpu here, cuda in the baseline"));
  now = one();
  now.points[0].point.seq = 77;
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THAT(refusal(now, base), Contains("seq is 77 here and 512 there"));
  now.points.clear();
  CHECK_THAT(refusal(now, base), Contains("nothing to compare"));
}

TEST_CASE("one incomparable point among others does not hide them") {
  ResultFile now = sample::strategies(), base = sample::strategies();
  now.points[0].simulated = true;
  const Comparison comparison = compare_results(now, base, {});
  CHECK(comparison.points[0].metrics.at(0).verdict == Verdict::not_comparable);
  CHECK(comparison.points[1].metrics.at(0).metric == "time");
}

TEST_CASE("memory alone compares across CPUs, not across devices") {
  CompareOptions memory;
  memory.metrics = {"memory"};
  ResultFile now = one(300, 1000);
  now.environment["cpu"] = "another";
  now.environment["cores"] = 4;
  const Comparison comparison = compare_results(now, one(), memory);
  REQUIRE(comparison.points[0].metrics.size() == 1);
  CHECK(comparison.points[0].metrics[0].metric == "memory");
  CHECK(comparison.points[0].metrics[0].verdict == Verdict::same);
  ResultFile cpu_now = now, cpu_base = one();
  for (ResultFile* file : {&cpu_now, &cpu_base}) file->environment["device"] = file->points[0].point.device = "cpu";
  cpu_now.points[0].device = "AMD EPYC";
  cpu_base.points[0].device = "Intel Xeon";
  CHECK(compare_results(cpu_now, cpu_base, memory).points[0].metrics[0].verdict == Verdict::same);
  CHECK_THROWS_WITH(compare_results(cpu_now, cpu_base, {}), Contains("Intel Xeon in the baseline"));
  now.environment["device"] = "A100 x 8";
  CHECK_THROWS_WITH(compare_results(now, one(), memory), Contains("need the same hardware"));
  CHECK_THROWS_AS(check_metrics({"memory", "tme"}), Error);
}

TEST_CASE("simulated points of a file are compared where its measured ones ran on other hardware") {
  ResultFile now = sample::strategies(), base = sample::strategies();
  for (ResultFile* file : {&now, &base}) {
    file->points[0].simulated = true;
    file->points[0].point.device = file->points[0].device = "sim:8xdgx1";
  }
  now.environment["cores"] = 8;
  const Comparison comparison = compare_results(now, base, {});
  CHECK(comparison.points[0].metrics[0].verdict == Verdict::same);
  CHECK(comparison.points[1].metrics[0].verdict == Verdict::not_comparable);
  CHECK_THAT(comparison.points[1].metrics[0].reason, Contains("environment.cores is 8 here and 64 in the baseline"));
}

TEST_CASE("drivers and libraries may differ, and are listed first") {
  ResultFile now = one();
  now.environment["mpi"] = "MPICH 4.0";
  now.environment["driver"] = "535.104";
  now.environment["host"] = "node02";
  const Comparison comparison = compare_results(now, one(), {});
  CHECK(comparison.environment_changes.size() == 3);
  const std::string text = render_comparison(comparison, "md");
  CHECK_THAT(text, Contains("- mpi: MPICH 4.0, was Open MPI 4.1.4"));
  CHECK_THAT(text, Contains("- driver: 535.104, was n/a"));
  CHECK(text.find("- mpi") < text.find("| Point"));
}

TEST_CASE("simulations compare exactly, whatever computed them") {
  ResultFile now = one(), base = one();
  for (ResultFile* file : {&now, &base}) {
    file->points[0].simulated = true;
    file->points[0].point.device = file->points[0].device = "sim:8xdgx1";
    file->points[0].iteration_ms = statistics_of({100});
  }
  now.environment["cpu"] = "another";
  CHECK(metric(compare_results(now, base, {}), "time").verdict == Verdict::same);
  now.points[0].iteration_ms = statistics_of({106});
  CHECK(metric(compare_results(now, base, {}), "time").verdict == Verdict::slower);
}

TEST_CASE("thresholds: percentages of known metrics") {
  Thresholds t;
  set_threshold(t, "time=2.5%");
  set_threshold(t, "memory=0%");
  CHECK(t.time == Approx(0.025));
  CHECK(t.memory == 0);
  for (const char* bad : {"time=5", "time", "tme=5%", "time=-1%", "time=x%", "=5%", ""})
    CHECK_THROWS_AS(set_threshold(t, bad), Error);
}

TEST_CASE("what is slower once but not again is ambiguous, other regressions stand") {
  const ResultFile base = one();
  const Comparison once = compare_results(one(120, 2000), base, {});
  const Comparison not_again = confirmed(once, compare_results(one(100), base, {}));
  CHECK(metric(not_again, "time").verdict == Verdict::ambiguous);
  CHECK(metric(not_again, "time").reason == "slower once, not when it was measured again");
  CHECK(metric(not_again, "memory").verdict == Verdict::larger);
  const Comparison again = confirmed(once, compare_results(one(110), base, {}));
  CHECK(metric(again, "time").verdict == Verdict::slower);
}

TEST_CASE("points that differ in a field that may differ are compared, and what differs is said") {
  ResultFile now = one(), base = one();
  now.points[0].point.env = {{"NCCL_ALGO", "Tree"}};
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THROWS_WITH(compare_results(now, base, {}), Contains("env is NCCL_ALGO=Tree here and none there"));
  CompareOptions options;
  options.allow_different = {"env"};
  const Comparison comparison = compare_results(now, base, options);
  CHECK(metric(comparison, "time").verdict == Verdict::same);
  CHECK_THAT(render_comparison(comparison, "md"),
             Contains("- env: NCCL_ALGO=Tree, was none, as --allow-different has it"));
  // A point of the baseline that is the very same goes first, and one stands for one.
  base.points.push_back(now.points[0]);
  now.points.push_back(base.points[0]);
  const Comparison both = compare_results(now, base, options);
  REQUIRE(both.points.size() == 2);
  CHECK(both.environment_changes.empty());
  base.points.resize(1);
  CHECK(compare_results(now, base, options).points[0].metrics[0].verdict == Verdict::added);
  now.points.resize(1);
  options.allow_different = {"seq"};
  CHECK_THROWS_WITH(compare_results(now, base, options), Contains("env is"));
}
