// Running without computing: what a rank would allocate and execute.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/group.h"
#include "engine/plan/plan.h"

namespace mbench::sim {

// A device that counts but does not compute, able to hold so many bytes (0: no limit), and a world without peers.
std::unique_ptr<Device> open_counting_device(std::size_t memory_limit);
std::unique_ptr<comm::World> lone_world(int rank, int size);

// What a rank of the stage holds before its first step: weights, gradients, optimizer state, and the rest that lives as long.
MemoryUse count_state(const Plan& plan, int stage);

// What a rank of each pipeline stage would allocate at its peak, counted without computing. It is the peak of a training in its steady
// state: later steps find what the first one has left (engine/train/steady_state.h).
struct MemoryForecast {
  std::vector<MemoryUse> peak_by_stage;
  std::vector<std::size_t> reserved_by_stage;
  // Of host memory, where something is kept there.
  std::vector<MemoryUse> host_peak_by_stage;
  std::vector<std::size_t> host_reserved_by_stage;
  std::size_t total_reserved = 0;  // over all ranks
  double matmul_flops = 0;         // of one step, executed by all ranks, recompute included
  std::uint64_t launches = 0;      // of one step, of the busiest rank
  void add_host(const MemoryUse& peak, std::size_t reserved) {
    host_peak_by_stage.push_back(peak);
    host_reserved_by_stage.push_back(reserved);
  }
  // Adds a class of so many ranks.
  void add(const MemoryUse& peak, std::size_t reserved, int ranks, double flops, std::uint64_t step_launches);
};
// `memory_limit`: bytes a rank may hold, 0 for no limit. Throws OutOfMemory, naming the allocation, where it is too small.
MemoryForecast forecast_memory(const Plan& plan, std::size_t memory_limit = 0);

}  // namespace mbench::sim
