#include "sweeps/run/consistency.h"

#include <cmath>
#include <functional>

#include "sweeps/run/progress.h"
#include "test/catch.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sweeps;
using Catch::Contains;

namespace {

PointResult with_losses(std::int64_t tp, std::vector<double> losses, Precision precision = Precision::f32) {
  PointResult r;
  r.point.model = find_preset("gpt-bytes-tiny", "test");
  r.point.tp = tp;
  r.point.precision = precision;
  r.id = point_id(r.point);
  r.world = tp;
  r.losses = std::move(losses);
  return r;
}

}  // namespace

TEST_CASE("layout does not change what must agree, everything else does") {
  Point p;
  p.model = find_preset("gpt-bytes-tiny", "test");
  Point q = p;
  q.tp = 2, q.pp = 2, q.dp = 2, q.sequence_parallel = true, q.recompute = Recompute::full;
  q.schedule = ScheduleKind::interleaved, q.virtual_stages = 2, q.framework = keeps(Graph::eager), q.memory_limit = 5;
  q.strategy = "full", q.max_seconds = 3, q.env.emplace("A", "1");
  CHECK(agreement_key(q) == agreement_key(p));
  Point replicas = p;
  replicas.replicas = Replicas::single_process;
  CHECK(agreement_key(replicas) == agreement_key(p));
  const auto differs = [&](auto change) {
    Point other = p;
    change(other);
    return agreement_key(other) != agreement_key(p);
  };
  CHECK(differs([](Point& x) { x.seq = 5; }));
  CHECK(differs([](Point& x) { x.seed = 5; }));
  CHECK(differs([](Point& x) { x.precision = Precision::bf16; }));
  CHECK(differs([](Point& x) { x.global_batch = 8; }));
  CHECK(differs([](Point& x) { x.warmup = 8; }));
  CHECK(differs([](Point& x) { x.learning_rate = 8; }));
}

TEST_CASE("losses that leave the reference make a point wrong") {
  const std::vector<PointResult> before = {with_losses(4, {5.0, 4.0}), with_losses(1, {5.0, 4.0, 3.0})};
  PointResult same = with_losses(2, {5.00002, 4.0, 3.0});
  check_losses(same, before);
  CHECK(same.outcome == Outcome::ok);
  PointResult apart = with_losses(2, {5.0, 4.0, 3.01});
  check_losses(apart, before);
  CHECK(apart.outcome == Outcome::wrong);
  CHECK_THAT(apart.reason, Contains("the loss of step 3 is 3.01, but 3 with tp 1 pp 1 dp 1 (" + before[1].id +
                                    "): they differ by 3.3e-03, need at most 1e-05"));
  PointResult coarse = with_losses(2, {5.005, 4.0}, Precision::fp16);
  check_losses(coarse, {with_losses(1, {5.0, 4.0}, Precision::fp16)});
  CHECK(coarse.outcome == Outcome::ok);
  coarse = with_losses(2, {5.05, 4.0}, Precision::fp16);
  check_losses(coarse, {with_losses(1, {5.0, 4.0}, Precision::fp16)});
  CHECK(coarse.outcome == Outcome::wrong);
  PointResult alone = with_losses(2, {9.0}, Precision::bf16);
  check_losses(alone, before);
  CHECK(alone.outcome == Outcome::ok);
  PointResult nan = with_losses(2, {5.0, NAN});
  check_losses(nan, {});
  CHECK(nan.outcome == Outcome::wrong);
  CHECK_THAT(nan.reason, Contains("step 2 is not a finite number"));
}

TEST_CASE(
    "with router capacity layouts that dispatch other tokens together are told, and those that dispatch alike "
    "compared") {
  const auto run = [](double loss, auto change) {
    PointResult r;
    r.point.model = find_preset("gpt-bytes-tiny", "test");
    r.point.model.experts = 4, r.point.model.active_experts = 2;
    r.point.router = {Routing::capacity, 1};
    change(r.point);
    r.id = point_id(r.point);
    r.world = static_cast<int>(r.point.world());
    r.losses = {loss};
    return r;
  };
  const auto serial = run(5, [](Point&) {});
  const auto checked = [](PointResult r, const std::vector<PointResult>& before) {
    check_losses(r, before);
    return r;
  };
  const auto cp = [](Point& p) { p.cp = 2; };
  const auto etp = [](Point& p) { p.tp = 2, p.sequence_parallel = true, p.etp = 1; };
  for (const PointResult& other : {checked(run(5.1, cp), {serial}), checked(run(5.1, etp), {serial})}) {
    CHECK(other.outcome == Outcome::ok);
    CHECK_THAT(other.reason, Contains("router capacity:1 drops tokens of sequences in 2 parts") &&
                                 Contains(", in tp 1 pp 1 dp 1 (" + serial.id +
                                          ") router capacity:1 drops tokens of whole sequences") &&
                                 Contains("not compared"));
  }
  // Alike: the same tokens, as dp, ep and tp with etp as wide dispatch them.
  for (const auto& alike : std::vector<std::function<void(Point&)>>{
           [](Point& p) { p.dp = 2, p.ep = 2; }, [](Point& p) { p.tp = 2, p.sequence_parallel = true; },
           [](Point& p) { p.tp = 2, p.sequence_parallel = true, p.etp = 2; }}) {
    CHECK(checked(run(5, alike), {serial}).outcome == Outcome::ok);
    CHECK(checked(run(5, alike), {serial}).reason.empty());
    CHECK(checked(run(5.1, alike), {serial}).outcome == Outcome::wrong);
  }
  const auto wide = [](Point& p) { p.cp = 2, p.dp = 2; };
  CHECK(checked(run(5.1, wide), {serial, run(5.1, cp)}).outcome == Outcome::ok);
  CHECK(checked(run(5, wide), {serial, run(5.1, cp)}).outcome == Outcome::wrong);
  // Two chunks from either end are no ranges, but their halves are.
  const auto ranges = [](Point& p) { p.cp = 2, p.cp_communication = CpCommunication::all_to_all; };
  CHECK(checked(run(5.1, ranges), {run(5, cp)}).outcome == Outcome::ok);
  const auto quarters = [](Point& p) { p.tp = 4, p.sequence_parallel = true, p.etp = 1; };
  const auto halves_of_chunks = [](Point& p) { p.cp = 2, p.tp = 2, p.sequence_parallel = true, p.etp = 1; };
  CHECK(checked(run(5.1, halves_of_chunks), {run(5, quarters)}).outcome == Outcome::wrong);
  // Where no token is dropped all compute the same.
  const auto learned = [](Point& p) { p.router = {Routing::learned, 0}; };
  const auto learned_cp = [&](Point& p) { learned(p), cp(p); };
  CHECK(checked(run(5.1, learned_cp), {run(5, learned)}).outcome == Outcome::wrong);
}

TEST_CASE(
    "Adafactor's layouts in which several ranks have keys and values whole are told, and compared with each other") {
  const auto run = [](double loss, std::int64_t tp, std::int64_t dp = 1) {
    PointResult r = with_losses(tp, {loss});
    r.point.model.kv_heads = 2;
    r.point.optimizer = OptimizerKind::adafactor;
    r.point.dp = dp;
    r.id = point_id(r.point);
    r.world = static_cast<int>(r.point.world());
    return r;
  };
  const auto checked = [](PointResult r, const std::vector<PointResult>& before) {
    check_losses(r, before);
    return r;
  };
  CHECK(checked(run(5.1, 2), {run(5, 1)}).outcome == Outcome::wrong);
  const PointResult apart = checked(run(5.1, 4), {run(5, 1)});
  CHECK(apart.outcome == Outcome::ok);
  CHECK_THAT(apart.reason, Contains("keys and values in a matrix of their own") && Contains("not compared"));
  CHECK(checked(run(5.2, 4, 2), {run(5, 1), run(5.1, 4)}).outcome == Outcome::wrong);
  // A vector of numbers for each weight has no matrix.
  PointResult adam = run(5.1, 4), serial = run(5, 1);
  adam.point.optimizer = serial.point.optimizer = OptimizerKind::adamw;
  CHECK(checked(adam, {serial}).outcome == Outcome::wrong);
}

TEST_CASE("gradient norms that leave the reference make a point wrong where its losses do not") {
  const auto with_norms = [](std::int64_t tp, std::vector<double> norms, Precision precision) {
    PointResult r = with_losses(tp, std::vector<double>(norms.size(), 5.0), precision);
    r.gradient_norms = std::move(norms);
    return r;
  };
  const auto outcome = [&](std::vector<double> mine, std::vector<double> theirs, Precision precision) {
    PointResult r = with_norms(2, std::move(mine), precision);
    check_losses(r, {with_norms(1, std::move(theirs), precision)});
    return r;
  };
  CHECK(outcome({2, 1.00005}, {2, 1}, Precision::f32).outcome == Outcome::ok);
  const PointResult wrong = outcome({2, 1.0005}, {2, 1}, Precision::f32);
  CHECK(wrong.outcome == Outcome::wrong);
  CHECK_THAT(wrong.reason, Contains("the gradient norm of step 2 is 1.0005, but 1 with tp 1 pp 1 dp 1 (") &&
                               Contains("): they differ by 5.0e-04, need at most 1e-04"));
  CHECK(outcome({2, 1.01}, {2, 1}, Precision::bf16).outcome == Outcome::ok);
  CHECK(outcome({2, 1.05}, {2, 1}, Precision::bf16).outcome == Outcome::wrong);
  // A step of fp16 that overflowed in both, and one that did in one of them alone.
  CHECK(outcome({NAN, 1}, {NAN, 1}, Precision::fp16).outcome == Outcome::ok);
  CHECK(outcome({NAN, 1}, {2, 1}, Precision::fp16).outcome == Outcome::wrong);
  // Records of older versions have no norms.
  CHECK(outcome({2}, {}, Precision::f32).outcome == Outcome::ok);
}

TEST_CASE("rounding grows with the steps: late ones are held to less, and their norms to nothing") {
  const auto run = [](double last_loss, double last_norm, std::int64_t tp) {
    PointResult r = with_losses(tp, std::vector<double>(30, 5.0), Precision::bf16);
    r.gradient_norms.assign(30, 1.0);
    r.losses.back() = last_loss, r.gradient_norms.back() = last_norm;
    return r;
  };
  const auto outcome = [&](PointResult r) {
    check_losses(r, {run(5.0, 1.0, 1)});
    return r.outcome;
  };
  CHECK(outcome(run(5.05, 1.5, 2)) == Outcome::ok);
  CHECK(outcome(run(5.2, 1.0, 2)) == Outcome::wrong);
  PointResult early = run(5.0, 1.0, 2);
  early.losses[19] = 5.05;
  CHECK(outcome(early) == Outcome::wrong);
}

TEST_CASE("the time left follows the forecasts, scaled by what the finished points took") {
  TimeLeft t;
  for (const double s : {10.0, 10.0, 20.0}) t.expect(s);
  CHECK(*t.left(4) == 36);
  CHECK(*t.left(50) == 30);  // late, but the others are still to come
  t.done(20);
  CHECK(*t.left(0) == 60);
  TimeLeft unknown;
  unknown.expect({}), unknown.expect({});
  CHECK_FALSE(unknown.left(0));
  unknown.done(3);
  CHECK(*unknown.left(1) == 2);
}
