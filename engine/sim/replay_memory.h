// What a rank allocates in a step, from its tapes and its schedule: the allocator's own policy on every block, in order.
//
// Once the arena is as it was some actions ago, block by block, and the schedule goes on as it did since then, what was
// done meanwhile is not done again: the period is left out as often as it fits. Under 1F1B it is as many micro batches
// as the stage has under way.
#pragma once
#include <exception>

#include "engine/sim/recorder.h"

namespace mbench::sim {

struct ReplayedMemory {
  MemoryUse peak;
  std::size_t reserved = 0;
  std::exception_ptr full;         // OutOfMemory, where the limit is too small
  bool full_before_waits = false;  // before the rank has waited for another
};

// Of each class. `limit`: bytes that a rank may hold, 0 for no limit.
std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit);

}  // namespace mbench::sim
