// Captured parts of layers (Plan::captured). A part is recorded in its first run of the second step, for each micro batch, and replayed
// from then on. Its code runs again for what it does on the host: it takes the same memory, which is checked, and enqueues nothing. Where the
// allocator's memory grew in the step that was recorded, later steps take other blocks of it: then the next step is recorded instead.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/device/device.h"

namespace mbench::nn {

class PartGraphs {
 public:
  // Where a part runs: the piece of a module, and the first sample of its micro batch.
  struct Place {
    const void* piece = nullptr;
    std::int64_t micro = 0;
    auto operator<=>(const Place&) const = default;
  };
  // Before a step's first part: `step` counts from 0.
  void begin_step(Device& device, std::int64_t step);
  // Runs it, or replays what it was. `launched`: by a graph of its own; else it is more of the graph before.
  void run(Device& device, const Place& place, bool launched, const std::function<void()>& part);
  std::int64_t replays() const { return replays_; }

 private:
  struct Graph {
    std::unique_ptr<RecordedStep> recorded;
    std::uint64_t before = 0, after = 0;  // the allocator's history around it
  };
  struct Runs {
    std::vector<Graph> graphs;  // of a step, in order: a forward may be run again before its backward
    std::int64_t step = -1;
    std::size_t next = 0;
  };
  Graph record(Device& device, const std::function<void()>& part) const;
  void replay(Device& device, const Graph& graph, const std::function<void()>& part);

  std::map<Place, Runs> runs_;
  std::int64_t step_ = 0, recorded_step_ = -1, replays_ = 0;
  std::size_t reserved_ = 0;  // of the allocator, as the recorded step began
};

}  // namespace mbench::nn
