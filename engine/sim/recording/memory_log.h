// What a rank's memory holds, tensor by tensor: at its peak, and over a step as PyTorch's memory viewer shows it. It comes from a
// recording and the allocator of the plan's framework.
#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/sim/play/replay_memory.h"

namespace mbench::sim {

// Tensors that are alike: same name, shape and type, in memory at the same time.
struct TensorsAtPeak {
  std::string what, shape, dtype;
  Category category{};
  std::size_t bytes = 0;  // of all of them
  int count = 0;
  std::string where;    // "layers 0-31", "head"; empty where no part of the model made them
  std::string made_by;  // "forward of 4 micro batches"; empty where they were there before the step
};
struct PeakByTensor {
  std::size_t total = 0;               // handed out, in bytes
  std::string during;                  // "backward 3"; empty at the step's begin and end
  std::vector<TensorsAtPeak> tensors;  // the largest first
};
PeakByTensor peak_by_tensor(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                            const std::optional<CachingSettings>& caching);

// What a rank has handed out over the last replayed step, by category: at its begin, after each block that came or went, and at its end. A
// forward or backward is a part of the step. So are blocks that come before the first, and after the last ("optimizer"). Micro batches that
// come and go as the one before did are left out, as MemoryListener says.
struct MemoryOverStep {
  struct Moment {
    double at =
        0;  // the number of its part, and the share of the part's blocks that came or went before; at the end the number of parts
    std::array<std::size_t, kCategories> bytes{};
  };
  std::vector<std::string> parts;  // "backward 3"
  std::vector<Moment> moments;
};
MemoryOverStep memory_over_step(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                const std::optional<CachingSettings>& caching);

// The allocations of the last replayed step, and all that is in memory at its end. The form is as in torch.cuda.memory._snapshot():
// segments with their blocks, and a trace. Frames name the part of the model and the tensor. Sizes in bytes.
nlohmann::json memory_snapshot(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                               const std::optional<CachingSettings>& caching);

}  // namespace mbench::sim
