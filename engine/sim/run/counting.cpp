#include "engine/sim/run/counting.h"

#include <algorithm>

#include "engine/sim/cost/device.h"
#include "engine/sim/play/replay.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/play/world.h"
#include "engine/sim/recording/recorder.h"
#include "engine/train/steady_state.h"
#include "engine/train/trainer.h"

namespace mbench {

std::unique_ptr<Device> open_counting_device(std::size_t memory_limit) {
  return std::make_unique<sim::SimDevice>(memory_limit);
}

std::unique_ptr<World> lone_world(int rank, int size) {
  return std::make_unique<SimWorld>(rank, size);
}

MemoryUse count_state(const Plan& plan, int stage) {
  const auto device = open_counting_device(0);
  const int world = plan.mesh.world();
  const auto lone = lone_world(stage * (world / plan.mesh.size(Axis::pp)), world);
  const Trainer trainer(plan, *device, *lone, nullptr);
  return device->memory().in_use();
}

namespace {

// Steps of each class of ranks, one op after the other, until memory repeats.
MemoryForecast run_all(const Plan& plan, std::size_t memory_limit) {
  MemoryForecast forecast;
  for (const sim::RankClasses::Class& c : sim::rank_classes(plan, 0).classes) {
    const auto device = open_counting_device(memory_limit);
    const auto world = lone_world(c.rank, plan.mesh.world());
    Trainer trainer(plan, *device, *world, nullptr);
    SteadyState steady(*device);
    device->meter().reset();
    trainer.step();
    const double flops = device->meter().matmul_flops;
    const std::uint64_t launches = device->meter().launches;
    while (!steady.reached()) trainer.step();
    forecast.add(device->memory().peak(), device->memory().reserved(), c.ranks, flops, launches);
    if (const Device* host = device->opened_host()) forecast.add_host(host->memory().peak(), host->memory().reserved());
  }
  return forecast;
}

}  // namespace

void MemoryForecast::add(const MemoryUse& peak, std::size_t reserved, int ranks, double flops,
                         std::uint64_t step_launches) {
  peak_by_stage.push_back(peak);
  reserved_by_stage.push_back(reserved);
  total_reserved += reserved * static_cast<std::size_t>(ranks);
  matmul_flops += flops * ranks;
  launches = std::max(launches, step_launches);
}

MemoryForecast forecast_memory(const Plan& plan, std::size_t memory_limit) {
  const auto recording = sim::record(plan, 0, nullptr, nullptr);
  if (!recording) return run_all(plan, memory_limit);
  const auto memory = sim::replay_memory(plan, *recording, memory_limit);
  for (const sim::ReplayedMemory& m : memory)
    if (m.full) std::rethrow_exception(m.full);
  const auto times = sim::replay_time(plan, *recording, HostTimes(), nullptr);
  MemoryForecast forecast;
  std::vector<sim::ReplayedMemory> host;
  if (sim::uses_host(plan)) host = sim::replay_host_memory(plan, *recording);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!host.empty()) forecast.add_host(host[i].peak, host[i].reserved);
    forecast.add(memory[i].peak, memory[i].reserved, recording->classes.classes[i].ranks, times[i].matmul_flops,
                 times[i].launches);
  }
  return forecast;
}

}  // namespace mbench
