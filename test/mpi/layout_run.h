// Trains a point on the first ranks of the job and returns what every rank of it saw.
#pragma once
#include <mpi.h>

#include <chrono>
#include <thread>

#include "engine/comm/mpi/mpi_world.h"
#include "engine/platform/registry.h"
#include "engine/point/processes.h"
#include "engine/point/result.h"
#include "engine/run/run_point.h"
#include "strategies/strategies.h"

namespace mbench::test {

// All ranks of the job wait for each other, asleep between looks. MPI's own waiting yields at best: on few cores ranks without a
// part in a point then take time from those that compute.
inline void meet_asleep() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
  for (int done = 0; done == 0;) {
    MPI_Test(&all_here, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Collective over the whole job. The record is complete on rank 0; ranks beyond the point's world return an
// empty one.
inline PointResult run_layout(const Point& point, const Plan& plan) {
  meet_asleep();
  comm::MpiWorld world(static_cast<int>(processes_of(point)));
  if (!world.member()) return {};
  if (plan.single_process) {
    PointResult result;
    platform::run_replicas(static_cast<int>(point.world()), [&](comm::World& threads) {
      const auto device = platform::open_device("cpu", 0);
      const PointResult mine = run_point(point, plan, *device, threads, {});
      if (threads.rank() == 0) result = mine;
    });
    return result;
  }
  const auto device = platform::open_device("cpu", 0);
  return run_point(point, plan, *device, world, {});
}

inline PointResult run_layout(const Point& point) {
  return run_layout(point, strategies::make_plan(point));
}

inline int rank_of_job() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline bool first_rank() {
  return rank_of_job() == 0;
}

}  // namespace mbench::test
