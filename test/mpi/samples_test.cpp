// What a sample holds: one optimizer step, and nothing of what the harness does between two.
#include <algorithm>
#include <chrono>
#include <thread>

#include "test/catch.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/layouts.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;
using namespace mbench::test;

namespace {

PointResult run_with(const Point& point, const RunOptions& options) {
  MpiWorld world(static_cast<int>(point.world()));
  if (!world.member()) return {};
  const Plan plan = strategies::make_plan(point);
  const auto device = open_device("cpu", 0);
  return run_point(point, plan, *device, world, options);
}

Point two_ranks() {
  Layout layout = layout_of("samples", "gpt", 1, 2, 1, false);
  Point p = layout.point;
  p.iterations = 6;
  p.warmup = 1;
  return p;
}

}  // namespace

// The other rank waits for the slow one before its sample begins, not in it.
TEST_CASE("a slow progress sink does not change a sample") {
  constexpr auto kDelay = std::chrono::milliseconds(300);
  int calls = 0;
  RunOptions slow;
  slow.progress = [&](const Progress&) {
    ++calls;
    std::this_thread::sleep_for(kDelay);
  };
  const PointResult result = run_with(two_ranks(), slow);
  if (!first_rank()) return;
  CHECK(calls == 7);
  REQUIRE(result.iteration_ms);
  REQUIRE(result.iteration_ms->samples.size() == 6);
  // A step takes some milliseconds; with the delay in it every sample would have 300.
  CHECK(result.iteration_ms->median < 150);
}

// NVML takes tens of milliseconds to open what a GPU's samples are beside.
TEST_CASE("sensors that open slowly are in no sample") {
  constexpr auto kDelay = std::chrono::milliseconds(300);
  RunOptions slow;
  slow.open_energy = [&]() -> std::unique_ptr<EnergyMeter> {
    std::this_thread::sleep_for(kDelay);
    return nullptr;
  };
  const PointResult result = run_with(two_ranks(), slow);
  if (!first_rank()) return;
  REQUIRE(result.iteration_ms);
  CHECK(result.iteration_ms->samples.front() < 250);
}

TEST_CASE("a traced step is no sample, and is in no record") {
  Timeline timeline;
  RunOptions traced;
  traced.timeline = &timeline;
  const PointResult with = run_with(two_ranks(), traced), without = run_with(two_ranks(), {});
  if (!first_rank()) return;
  CHECK(with.iteration_ms->samples.size() == 6);
  CHECK(with.losses == without.losses);
  CHECK(with.losses.size() == 7);
  CHECK(with.gradient_norms == without.gradient_norms);
  // One step: as many forwards as there are micro batches.
  const auto forwards = std::count_if(timeline.spans().begin(), timeline.spans().end(), [](const TimelineSpan& s) {
    return s.track == Track::phase && s.name.starts_with("forward");
  });
  CHECK(forwards == 8);
}
