// What a rank allocates on the counting device is, byte for byte and by category, what it allocates on the
// CPU; and after the first iteration no rank asks for raw memory.
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "test/catch.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/layouts.h"

using namespace mbench;
using namespace mbench::test;

namespace {

struct Peaks {
  MemoryUse peak;
  std::size_t reserved = 0;
  std::uint64_t raw_after_first = 0, raw_at_end = 0;
};

Peaks train(const Plan& plan, Device& device, World& world, const TokenSource* data) {
  Trainer trainer(plan, device, world, data);
  Peaks peaks;
  trainer.step();
  peaks.raw_after_first = device.memory().raw_allocations();
  trainer.step();
  trainer.step();
  peaks.peak = device.memory().peak();
  peaks.reserved = device.memory().reserved();
  peaks.raw_at_end = device.memory().raw_allocations();
  return peaks;
}

}  // namespace

TEST_CASE("counted memory equals the CPU's byte for byte on every rank") {
  for (const Layout& layout : layouts()) {
    const Point point = point_of(layout);
    MpiWorld world(static_cast<int>(point.world()));
    double different = 0, grew = 0;
    if (world.member()) {
      const Plan plan = strategies::make_plan(point);
      const auto data = open_data(point.data, point.model.vocab, point.seq, point.seed);
      const auto real_device = open_device("cpu", 0);
      const Peaks real = train(plan, *real_device, world, data.get());
      const auto counting = open_counting_device(0);
      const auto lone = lone_world(world.rank(), world.size());
      const Peaks counted = train(plan, *counting, *lone, nullptr);
      different = real.peak.total != counted.peak.total ||
                  real.peak.by_category != counted.peak.by_category || real.reserved != counted.reserved;
      grew = real.raw_at_end != real.raw_after_first;
    }
    double worst[2] = {different, grew};
    MPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    INFO(describe(layout));
    CHECK(worst[0] == 0);
    CHECK(worst[1] == 0);
  }
}
