// Groups whose messages go through host memory, as for ranks that share a GPU: here between two CPU devices,
// so that nothing but the detour differs.
#include "engine/backend/cpu/cpu_device.h"
#include "engine/comm/staged/staged_world.h"
#include "test/catch.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/layouts.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::test;

namespace {

PointResult run_staged(const Point& point) {
  MpiWorld world(static_cast<int>(point.world()));
  if (!world.member()) return {};
  const Plan plan = strategies::make_plan(point);
  cpu::CpuDevice device, host;
  StagedWorld staged(world, host);
  return run_point(point, plan, device, staged, {});
}

}  // namespace

TEST_CASE("messages through host memory change no bit") {
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
      Layout layout = layout_of("staged", "gpt", 2, 2, 2, true);
      layout.point.precision = precision;
      layout.point.schedule = schedule;
      layout.point.virtual_stages = schedule == ScheduleKind::interleaved ? 2 : 1;
      layout.point.dropout = 0.1;
      const PointResult direct = run_layout(layout.point), staged = run_staged(layout.point);
      if (!first_rank()) continue;
      CHECK(staged.outcome == Outcome::ok);
      REQUIRE(staged.losses.size() == static_cast<std::size_t>(layout.point.iterations));
      CHECK(staged.losses == direct.losses);
      CHECK(staged.gradient_norms == direct.gradient_norms);
    }
}

TEST_CASE("a group of one needs no messages") {
  MpiWorld world;
  cpu::CpuDevice device, host;
  StagedWorld staged(world, host);
  const auto alone = staged.group(device, "alone", {world.rank()});
  const Tensor in = device.empty({3}, DType::f32, Category::other, "in");
  const Tensor out = device.empty({3}, DType::f32, Category::other, "out");
  for (int i = 0; i < 3; ++i) in.as<float>()[i] = static_cast<float>(i), out.as<float>()[i] = -1;
  alone->run(comm::AllGather{in, out});
  for (int i = 0; i < 3; ++i) CHECK(out.as<float>()[i] == static_cast<float>(i));
  alone->run(comm::AllReduce{out});
  CHECK(out.as<float>()[2] == 2.0f);
  CHECK(alone->host_max(world.rank()) == world.rank());
}
