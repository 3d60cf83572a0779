// What a rank allocates until the peak repeats (StepTapes::later), from its tapes and its schedule: the allocator's own policy on
// every block, in order.
// Where blocks lie does not repeat from micro batch to micro batch as soon as several are under way, and with it how far
// the arena grows: nothing is left out then.
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

// Of each class what is handed out at its peak: the same as above, without the allocator. What is handed out does not depend on
// where blocks lie, so that an action counts by the sum of what its tape takes and gives back.
std::vector<MemoryUse> count_memory(const Plan& plan, const Recording& recording);

// What an action on a micro batch changes of that, and where that stands when it is most. A message that is sent counts as gone.
struct MemoryChange {
  std::array<std::int64_t, kCategories> all{}, at_most{};
};
MemoryChange change_of(const StepTapes& tapes, Action::Kind kind, int chunk);

}  // namespace mbench::sim
