// Trains a point on the first ranks of the job and returns what every rank of it saw.
#pragma once
#include "engine/comm/mpi/mpi_world.h"
#include "engine/platform/registry.h"
#include "engine/point/processes.h"
#include "engine/point/result.h"
#include "engine/run/run_point.h"
#include "strategies/strategies.h"

namespace mbench::test {

// Collective over the whole job. The record is complete on rank 0; ranks beyond the point's world return an
// empty one.
inline PointResult run_layout(const Point& point) {
  MpiWorld world(static_cast<int>(processes_of(point)));
  if (!world.member()) return {};
  const Plan plan = strategies::make_plan(point);
  if (plan.single_process) {
    PointResult result;
    run_replicas(static_cast<int>(point.world()), [&](World& threads) {
      const auto device = open_device("cpu", 0);
      const PointResult mine = run_point(point, plan, *device, threads, {});
      if (threads.rank() == 0) result = mine;
    });
    return result;
  }
  const auto device = open_device("cpu", 0);
  return run_point(point, plan, *device, world, {});
}

inline bool first_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
}

}  // namespace mbench::test
