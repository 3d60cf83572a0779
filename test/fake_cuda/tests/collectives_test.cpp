// Groups over NCCL between processes, each with a fake GPU of its own, held to the contract of every backend.
#include "test/mpi/collectives.h"

#include "engine/backend/cpu/cpu_device.h"
#include "engine/backend/cuda/cuda.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/comm/nccl/nccl_world.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::test;

namespace {

constexpr double kDeadline = 60;  // seconds

void on_nccl(void (*check)(World&, Device&)) {
  MpiWorld hosts;
  cpu::CpuDevice host;
  cuda::DeviceOptions options;
  options.ordinal = hosts.rank();
  const auto device = cuda::open_device(options);
  const auto world = open_nccl_world(hosts, hosts, host, *device, kDeadline);
  check(*world, *device);
  device->synchronize();
}

}  // namespace

TEST_CASE("NCCL: collectives of groups of every size") {
  on_nccl(check_collectives);
}

TEST_CASE("NCCL: all_to_all, of equal and unequal parts") {
  on_nccl(check_all_to_all);
}

TEST_CASE("NCCL: messages that are started keep their order, and a ring does not stand still") {
  on_nccl(check_messages);
}

TEST_CASE("NCCL: hosts gather values, lists and text") {
  on_nccl(check_host_values);
}

TEST_CASE("NCCL: what does not fit a group is refused before any rank waits") {
  on_nccl(check_refusals);
}
