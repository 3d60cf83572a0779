// Memory over a step against time: the moments of the recording at the times of the simulated step.
#include "engine/sim/play/memory_over_time.h"

#include <algorithm>
#include <numeric>

#include "engine/run/trace.h"
#include "engine/sim/run/step_costs.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

std::size_t total(const sim::MemoryOverStep::Moment& m) {
  return std::accumulate(m.bytes.begin(), m.bytes.end(), std::size_t{0});
}

template <class Moments>
std::size_t most(const Moments& moments) {
  std::size_t most = 0;
  for (const auto& m : moments) most = std::max(most, total(m));
  return most;
}

sim::MemoryOverStep steps() {
  sim::MemoryOverStep over;
  over.parts = {"begin", "forward 0", "backward 0", "forward 3", "backward 3", "optimizer"};
  for (std::size_t i = 0; i < over.parts.size(); ++i)
    for (const double share : {0.0, 0.5}) {
      over.moments.push_back({static_cast<double>(i) + share, {}});
      over.moments.back().bytes[0] = 10 * i + (share > 0 ? 1 : 0);
    }
  over.moments.push_back({6, {}});
  return over;
}

}  // namespace

TEST_CASE("memory over time: a part's moments lie in its time, and those left out are as the one before") {
  Timeline timeline;
  timeline.add(Track::compute, "matmul", 1.000, 1.001);
  for (int i = 0; i < 4; ++i) {
    timeline.add(Track::phase, fmt::format("forward {}", i), 1.010 + 0.01 * i, 1.014 + 0.01 * i);
    timeline.add(Track::phase, fmt::format("backward {}", i), 1.014 + 0.01 * i, 1.020 + 0.01 * i);
  }
  timeline.add(Track::phase, "optimizer", 1.050, 1.060);
  const auto timed = sim::over_time(steps(), timeline);
  REQUIRE(timed);
  std::vector<std::string> names;
  for (const auto& part : timed->parts) names.push_back(part.name);
  CHECK(names == std::vector<std::string>{"begin", "forward 0", "backward 0", "forward 1", "backward 1", "forward 2",
                                          "backward 2", "forward 3", "backward 3", "optimizer"});
  REQUIRE(timed->moments.size() == 21);
  CHECK(timed->moments[0].at == Approx(0));
  CHECK(timed->moments[2].at == Approx(10));
  CHECK(timed->moments[3].at == Approx(12));  // half of forward 0
  CHECK(timed->moments[6].at == Approx(20));
  CHECK(total(timed->moments[6]) == 10);  // forward 1 is as forward 0
  CHECK(total(timed->moments[14]) == 30);
  CHECK(timed->moments[18].at == Approx(50));
  CHECK(total(timed->moments[18]) == 50);
  CHECK(timed->moments.back().at == Approx(60));
  CHECK_FALSE(sim::over_time(steps(), Timeline()));
}

TEST_CASE("memory over time: of a simulated step in order, to its end, with the peak of the recording") {
  for (const std::int64_t pp : {1, 2}) {
    INFO("pp " << pp);
    Point p;
    p.model = {"small", "gpt", 4, 256, 4, 1024, 1000, 256};
    p.seq = 256, p.micro_batch = 1, p.global_batch = 8, p.pp = pp;
    p.precision = Precision::fp16;
    p.framework.preset = "megatron-2022";
    const Simulation s =
        simulated(p, find_machine("V100-SXM2-16GB", "test"), find_framework("megatron-2022", "test"), 8, true);
    REQUIRE(s.result.outcome == Outcome::ok);
    const Plan plan = strategies::make_plan(p);
    const auto recording = sim::record(plan, 8, nullptr, nullptr);
    const sim::MemoryOverStep over =
        sim::memory_over_step(plan, recording, recording.classes.classes.front(), sim::caching_of(plan, p.env));
    const auto timed = sim::over_time(over, s.timeline_by_stage.front());
    REQUIRE(timed);
    CHECK(most(timed->moments) == most(over.moments));
    CHECK(std::ranges::is_sorted(timed->moments, {}, &sim::MemoryOverStep::Moment::at));
    CHECK(std::ranges::count_if(timed->parts, [](const auto& part) { return part.name.starts_with("forward"); }) == 8);
    double end = 0;
    for (const TimelineSpan& span : s.timeline_by_stage.front().spans()) end = std::max(end, span.end);
    CHECK(timed->moments.back().at == Approx((end - start_of(s.timeline_by_stage.front())) * 1e3));
    CHECK(timed->moments.back().at <= s.result.iteration_ms->mean);
  }
}
