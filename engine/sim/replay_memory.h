// What a rank allocates until the peak repeats (StepEvents::later), from its recording and its schedule: an allocator's policy on
// every block, in order. That is mbench's own, or that of PyTorch for a framework that runs on it.
// Where blocks lie does not repeat from micro batch to micro batch as soon as several are under way, and with it how far
// the arena grows: nothing is left out then.
#pragma once
#include <exception>
#include <map>
#include <optional>
#include <string>

#include "engine/sim/allocator/caching_allocator.h"
#include "engine/sim/recorder.h"

namespace mbench::sim {

struct ReplayedMemory {
  MemoryUse peak;
  std::size_t reserved = 0;
  std::uint64_t retries = 0;  // how often a step has to return segments to the device, since it would be full otherwise
  std::exception_ptr full;    // OutOfMemory, where the limit is too small
  bool full_before_waits = false;  // before the rank has waited for another
};

// By which rules PyTorch's allocator finds blocks, where the plan's framework runs on it; `env`: what a run has in its environment.
std::optional<CachingSettings> caching_of(const Plan& plan, const std::map<std::string, std::string>& env);

// Of each class. `limit`: bytes that a rank may hold, 0 for no limit. `caching`: by PyTorch's caching allocator, until what it reserves
// no longer grows.
std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit,
                                          const std::optional<CachingSettings>& caching = std::nullopt);

// Is told of every block of a rank in the order of its steps; blocks of micro batches that come and go as the one before did, once.
class MemoryListener {
 public:
  virtual ~MemoryListener() = default;
  // A step, the first of them 0, begins; before that comes the setup.
  virtual void step(int number) = 0;
  // `block`: what the allocator calls it, which no other has while it lives. `action`: null at the setup, and at a step's begin and end.
  virtual void taken(std::size_t block, std::size_t bytes, Category category, const TensorName& name,
                     const Action* action) = 0;
  virtual void given(std::size_t block) = 0;
};

// Of one class.
ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                Arena& memory, MemoryListener* listener);
ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                CachingAllocator& memory, MemoryListener* listener);

// Of each class what is handed out at its peak: the same as above, without the allocator. What is handed out does not depend on
// where blocks lie, so that an action counts by the sum of what its recording takes and gives back.
std::vector<MemoryUse> count_memory(const Plan& plan, const Recording& recording);

// What an action on a micro batch changes of that, and where that stands when it is most. A message that is sent counts as gone.
struct MemoryChange {
  std::array<std::int64_t, kCategories> all{}, at_most{};
};
MemoryChange change_of(const StepEvents& step_events, Action::Kind kind, int chunk);

}  // namespace mbench::sim
