#include "engine/sim/counting.h"

#include <algorithm>

#include "engine/sim/device.h"
#include "engine/sim/world.h"
#include "engine/train/trainer.h"

namespace mbench {

std::unique_ptr<Device> open_counting_device(std::size_t memory_limit) {
  return std::make_unique<sim::SimDevice>(memory_limit);
}

std::unique_ptr<World> lone_world(int rank, int size) {
  return std::make_unique<SimWorld>(rank, size);
}

MemoryForecast forecast_memory(const Plan& plan, std::size_t memory_limit) {
  MemoryForecast forecast;
  const int stages = plan.mesh.size(Axis::pp), ranks_per_stage = plan.mesh.world() / stages;
  for (int stage = 0; stage < stages; ++stage) {
    // The first rank of the stage stands for all of it: tp and dp peers hold the same shapes.
    const auto device = open_counting_device(memory_limit);
    const auto world = lone_world(stage * ranks_per_stage, plan.mesh.world());
    Trainer trainer(plan, *device, *world, nullptr);
    trainer.step();
    forecast.peak_by_stage.push_back(device->memory().peak());
    forecast.reserved_by_stage.push_back(device->memory().reserved());
    forecast.total_reserved += device->memory().reserved() * static_cast<std::size_t>(ranks_per_stage);
    forecast.matmul_flops += device->meter().matmul_flops * ranks_per_stage;
    forecast.launches = std::max(forecast.launches, device->meter().launches);
  }
  return forecast;
}

}  // namespace mbench
