// What a rank allocates on the counting device, and on a simulated machine, is byte for byte and by category
// what it allocates on the CPU, in the device's memory and in the host's. In the steady state, after the second iteration, no rank asks
// for raw memory. What collectives and messages of a step move is the same number of bytes, axis by axis, on the busiest of the ranks that are simulated.
#include <algorithm>
#include <mutex>
#include <optional>

#include "engine/sim/run/counting.h"
#include "engine/sim/run/rank_classes.h"
#include "engine/sim/run/simulate.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "strategies/routing.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/layouts.h"
#include "test/support/machine_for.h"

using namespace mbench;
using namespace mbench::test;

namespace {

struct Peaks {
  MemoryUse peak, host;
  std::size_t reserved = 0, host_reserved = 0;
  std::uint64_t raw_after_second = 0, raw_at_end = 0;
  ByAxis sent{};  // in the third step
};

Peaks train(const Plan& plan, Device& device, World& world, const TokenSource* data) {
  Trainer trainer(plan, device, world, data);
  Peaks peaks;
  const Device* host = device.opened_host();
  const auto raw = [&] { return device.memory().raw_allocations() + (host ? host->memory().raw_allocations() : 0); };
  trainer.step();
  trainer.step();
  peaks.raw_after_second = raw();
  const Meter before = device.total_meter();
  trainer.step();
  peaks.sent = device.total_meter().since(before).communication_bytes;
  peaks.peak = device.memory().peak();
  peaks.reserved = device.memory().reserved();
  if (host) peaks.host = host->memory().peak(), peaks.host_reserved = host->memory().reserved();
  peaks.raw_at_end = raw();
  return peaks;
}

bool same(const MemoryUse& a, const MemoryUse& b) {
  return a.total == b.total && a.by_category == b.by_category;
}
bool same(const Peaks& a, const Peaks& b) {
  return same(a.peak, b.peak) && same(a.host, b.host) && a.reserved == b.reserved && a.host_reserved == b.host_reserved;
}

// The ranks that stand for all others in a simulation. Others of their class may own other parts of sharded state, and then sum other
// gradients of norms over tp. Where every op was run it is the first of each stage.
std::vector<int> simulated_ranks(const Plan& plan, const Machine& machine, const Simulation& simulation) {
  std::vector<int> ranks;
  if (!simulation.compute_by_stage.empty()) {
    for (const auto& each : sim::rank_classes(plan, machine.node.devices).classes) ranks.push_back(each.rank);
    return ranks;
  }
  const int apart = plan.single_process ? 1 : plan.mesh.world() / plan.mesh.size(Axis::pp);
  for (int rank = 0; rank < plan.mesh.world(); rank += apart) ranks.push_back(rank);
  return ranks;
}

// From what each process knows of its own: the bytes of the busiest of these ranks, in MiB.
ByAxis busiest(std::vector<ByAxis> all, const std::vector<int>& ranks) {
  MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size() * all[0].size()), MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  ByAxis most{};
  for (const int rank : ranks)
    if (const ByAxis& mine = all.at(static_cast<std::size_t>(rank)); sum_of(mine) > sum_of(most)) most = mine;
  for (double& bytes : most) bytes /= 1048576;
  return most;
}

// Over all ranks: whether counted memory differs from the CPU's, raw memory grew after the second step, simulated memory
// differs.
void check_memory(const Layout& layout, const Machine& machine, const Framework& framework) {
  const Point point = layout.point;
  const bool follows_data = strategies::reads_rows(point) && point.ep > 1;
  // With room for the rows of all ranks only what is sent does.
  const double all = static_cast<double>(point.ep);
  const bool room = point.expert_rank_capacity >= all && (point.paged_stash == 0 || point.paged_stash >= all);
  if (follows_data && !room) return;
  meet_asleep();
  MpiWorld processes(static_cast<int>(processes_of(point)));
  std::mutex results;
  double different = 0, grew = 0, simulated_different = 0;
  std::vector<ByAxis> sent(static_cast<std::size_t>(point.world()));
  std::optional<ByAxis> simulated_sent;
  std::vector<int> representatives;
  const auto check_rank = [&](World& world) {
    const Plan plan = strategies::make_plan(point);
    const auto data = open_data(point.data, point.model.vocab, point.seq, point.seed);
    const auto real_device = open_device("cpu", 0);
    const Peaks real = train(plan, *real_device, world, data.get());
    const auto counting = open_counting_device(0);
    const auto lone = lone_world(world.rank(), world.size());
    const Peaks counted = train(plan, *counting, *lone, nullptr);
    const Simulation simulation = simulate_point(point, plan_on(framework, point), machine, world.size());
    // Of replicas of one process each is a class of its own.
    const auto rank_class =
        static_cast<std::size_t>(plan.single_process ? world.rank() : plan.mesh.coordinate(world.rank(), Axis::pp));
    Peaks simulated{simulation.peak_by_stage.at(rank_class), {}, simulation.reserved_by_stage.at(rank_class)};
    const bool state_on_host = point.offload != Offload::none;
    if (state_on_host || point.offload_activations.any()) {
      simulated.host = simulation.host_peak_by_stage.at(rank_class);
      simulated.host_reserved = simulation.host_reserved_by_stage.at(rank_class);
    }
    const std::lock_guard lock(results);
    different += counted.peak.total == 0 || !same(real, counted);
    simulated_different += !same(real, simulated);
    // A stage whose only layer is before the head has nothing to move.
    if (state_on_host || !point.offload_activations.any())
      simulated_different += (real.host.total > 0) != state_on_host;
    sent.at(static_cast<std::size_t>(world.rank())) = real.sent;
    simulated_sent = simulation.result.communication_mib.value().mib;
    representatives = simulated_ranks(plan, machine, simulation);
    grew += real.raw_at_end != real.raw_after_second;
  };
  if (processes.member())
    point.replicas == Replicas::single_process ? run_replicas(static_cast<int>(point.world()), check_rank)
                                               : check_rank(processes);
  double worst[3] = {different, grew, simulated_different};
  MPI_Allreduce(MPI_IN_PLACE, worst, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  INFO(describe(layout));
  CHECK(worst[0] == 0);
  CHECK(worst[1] == 0);
  CHECK(worst[2] == 0);
  const ByAxis most = busiest(std::move(sent), representatives);
  if (simulated_sent && !follows_data) CHECK(most == *simulated_sent);
}

}  // namespace

TEST_CASE("counted and simulated memory equal the CPU's byte for byte on every rank") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  const Framework framework = find_framework("mbench", "test");
  for (const Layout& layout : layouts()) check_memory(layout, machine_for(layout.point, machine), framework);
}
