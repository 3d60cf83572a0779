// Where weights, gradients and optimizer state lie over the ranks that replicate a weight (ZeRO: Rajbhandari et al. 2020):
// cp and dp for a dense weight, edp for an expert's. Optimizer state is what the optimizer declares (optimizer_plan.h) and,
// of 16-bit weights, the f32 originals; and where it lives in host memory, of 32-bit weights that do not, a copy of them there.
#pragma once
#include <string_view>

#include "engine/plan/placement.h"

namespace mbench {

enum class Residence { device, host };
constexpr std::string_view name_of(Residence r) {
  return r == Residence::host ? "host" : "device";
}

struct StatePlan {
  // Replicate, or shard(0): of the flat tensors that hold all parameters. What is sharded here is sharded further down too.
  Placement weights, gradients, optimizer;
  // How what is sharded is cut.
  enum class Cut {
    even,        // flat ranges in equal parts: a part may begin and end within a parameter
    parameters,  // whole parameters, each of which has an owner
    first        // all of it is the first rank's
  } cut = Cut::even;
  // In whose memory they lie between their uses. Weights of the host are sharded, and optimizer state is the host's too.
  Residence weights_at = Residence::device, optimizer_at = Residence::device;

  bool sharded() const { return optimizer.sharded(); }
  bool operator==(const StatePlan&) const = default;
};

}  // namespace mbench
