// Where weights, gradients and optimizer state lie over the ranks that replicate a weight (ZeRO: Rajbhandari et al. 2020):
// cp and dp for a dense weight, edp for an expert's. Optimizer state is Adam's moments and, of 16-bit weights, the f32
// originals.
#pragma once
#include "engine/plan/placement.h"

namespace mbench {

struct StatePlan {
  // Replicate, or shard(0): of the flat tensors that hold all parameters. What is sharded here is sharded further down too.
  Placement weights, gradients, optimizer;
  // How what is sharded is cut.
  enum class Cut {
    even,       // flat ranges in equal parts: a part may begin and end within a parameter
    parameters  // whole parameters, each of which has an owner
  } cut = Cut::even;

  bool sharded() const { return optimizer.sharded(); }
  bool operator==(const StatePlan&) const = default;
};

}  // namespace mbench
