// What a rank allocates until the peak repeats (StepEvents::later), from its recording and its schedule. An allocator's policy places
// every block, in order: mbench's own, or PyTorch's for a framework that runs on it. As soon as several micro batches are in flight, the
// places of blocks differ from one to the next, and so does the growth of the arena. Only where all blocks lie as they lay some micro
// batches before, and the schedule repeats itself, the rest follows (memory_rounds.h).
#pragma once
#include <exception>
#include <map>
#include <optional>
#include <string>

#include "engine/sim/allocator/caching_allocator.h"
#include "engine/sim/recording/recorder.h"

namespace mbench::sim {

// What each action of a schedule asks the device for while memory is full, by its place in the schedule. What comes before and after all
// actions stands behind the last.
using DeviceCallsOf = std::map<std::size_t, CachingAllocator::DeviceCalls>;

struct ReplayedMemory {
  MemoryUse peak;
  std::size_t reserved = 0;
  std::uint64_t retries = 0;  // how often a step returns segments to the device because it would be full otherwise
  DeviceCallsOf calls;        // of a step with retries
  std::exception_ptr full;    // OutOfMemory, where the limit is too small
  std::size_t played = 0;     // actions of schedules whose blocks were placed; the others followed
};

// The rules of PyTorch's allocator, where the plan's framework runs on it. `env`: the environment of a run.
std::optional<CachingSettings> caching_of(const Plan& plan, const std::map<std::string, std::string>& env);

// One for each class. `limit`: bytes that a rank may hold, 0 for no limit. `caching`: use PyTorch's caching allocator, until the bytes
// it reserves no longer grow. `threads`: so many classes at the same time.
std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit,
                                          const std::optional<CachingSettings>& caching = std::nullopt,
                                          int threads = 1);

ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                std::size_t limit, const std::optional<CachingSettings>& caching);

// What each class takes of the host's memory. A rank may have `limit` bytes there.
std::vector<ReplayedMemory> replay_host_memory(const Plan& plan, const Recording& recording, std::size_t limit = 0);

// Receives every block of a rank in the order of its steps. Blocks of micro batches that come and go as the one before did are
// reported only once.
class MemoryListener {
 public:
  virtual ~MemoryListener() = default;
  // Step `number` begins, counted from 0; before step 0 comes the setup.
  virtual void step(int number) = 0;
  // `block`: the allocator's name for it, unique while it lives. `action`: null at the setup, and at a step's begin and end.
  virtual void taken(std::size_t block, std::size_t bytes, Category category, const TensorName& name,
                     const Action* action) = 0;
  virtual void given(std::size_t block) = 0;
};

// The same for one class.
ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                Arena& memory, MemoryListener* listener);
ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                CachingAllocator& memory, MemoryListener* listener);

// What each class has handed out at its peak: the same as above, without the allocator. It does not depend on where blocks lie, so an
// action counts by the sum of what its recording takes and gives back.
std::vector<MemoryUse> count_memory(const Plan& plan, const Recording& recording);

// By how much an action on a micro batch changes the handed-out bytes, at its end and at its peak. A message that is sent counts as
// freed.
struct MemoryChange {
  std::array<std::int64_t, kCategories> all{}, at_most{};
};
MemoryChange change_of(const StepEvents& step_events, Action::Kind kind, int chunk);

}  // namespace mbench::sim
