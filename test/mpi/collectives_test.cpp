// Every collective and message between ranks of MPI, directly and through host memory.
#include "test/mpi/collectives.h"

#include "engine/backend/cpu/cpu_device.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/comm/staged/staged_world.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::test;

namespace {

void on_both(void (*check)(World&, Device&)) {
  MpiWorld world;
  cpu::CpuDevice device, host;
  SECTION("MPI") {
    check(world, device);
  }
  SECTION("through host memory") {
    StagedWorld staged(world, host);
    check(staged, device);
  }
}

}  // namespace

TEST_CASE("collectives of groups of every size") {
  on_both(check_collectives);
}

TEST_CASE("all_to_all, of equal and unequal parts") {
  on_both(check_all_to_all);
}

TEST_CASE("messages that are started keep their order") {
  on_both(check_messages);
}

TEST_CASE("hosts gather values, lists and text") {
  on_both(check_host_values);
}

TEST_CASE("what does not fit a group is refused before any rank waits") {
  on_both(check_refusals);
}

TEST_CASE("letters between hosts come in their order, and nobody waits") {
  MpiWorld world;
  const int me = world.rank(), n = world.size(), next = (me + 1) % n, before = (me + n - 1) % n;
  const auto letter = [](int from, int kind, int i) {
    return std::vector<std::byte>{std::byte(from), std::byte(kind), std::byte(i)};
  };
  CHECK(!world.collect(next, 3));  // which never writes
  for (int i = 0; i < 20; ++i)
    for (const int kind : {0, 1}) world.post(next, kind, letter(me, kind, i));
  for (const int kind : {1, 0})
    for (int i = 0; i < 20; ++i) {
      auto got = world.collect(before, kind);
      while (!got) got = world.collect(before, kind);
      CHECK(*got == letter(before, kind, i));
    }
}
