// That MPI takes the sched_yield() of this program: nothing else would show that it does not.
#include "test/mpi/sleeping_yield.h"

#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "test/catch.h"
#include "test/mpi/layout_run.h"

using namespace mbench::test;

TEST_CASE("ranks that wait for another one sleep") {
  // Only where MPI is told to yield; CTest tells it. MPICH has no such setting.
  const char* yields = std::getenv("OMPI_MCA_mpi_yield_when_idle");
  if (yields == nullptr || std::string(yields) != "1") return;
  meet_asleep();
  const long before = times_slept();
  if (first_rank()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  MPI_Barrier(MPI_COMM_WORLD);
  const long mine = first_rank() ? 1 : times_slept() - before;
  long fewest = 0;
  MPI_Allreduce(&mine, &fewest, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  CHECK(fewest > 0);
}
