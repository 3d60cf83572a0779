// Where weights, gradients and optimizer state lie over the ranks that replicate a weight (ZeRO: Rajbhandari et al. 2020). Those are cp and
// dp for a dense weight, edp for an expert's. Optimizer state is what the optimizer declares (optimizer_plan.h) and the f32 originals of
// 16-bit weights. If it lives in host memory and 32-bit weights do not, it also has a copy of these weights there. So it has where the
// device keeps the f32 originals: the host updates its copy, and the device makes its 16-bit weights of what comes back.
#pragma once
#include <string_view>

#include "engine/plan/placement.h"

namespace mbench {

enum class Residence { device, host };
constexpr std::string_view name_of(Residence r) {
  return r == Residence::host ? "host" : "device";
}

struct StatePlan {
  // Replicate, or shard(0) of the flat tensors that hold all parameters. If weights are sharded, so are gradients; if gradients, so is
  // optimizer state.
  Placement weights, gradients, optimizer;
  // How sharded state is cut.
  enum class Cut {
    even,        // flat ranges in equal parts: a part may begin and end within a parameter
    parameters,  // whole parameters, each with one owner
    first        // the first rank has all of it
  } cut = Cut::even;
  // Whose memory they lie in between their uses. Weights and gradients in host memory are sharded, and optimizer state is then in host
  // memory too. Gradients there are f32, and go there as they are reduced.
  Residence weights_at = Residence::device, optimizer_at = Residence::device, gradients_at = Residence::device;
  // With optimizer state in host memory and 16-bit weights on the device: the device keeps f32 originals too.
  bool main_on_device = false;
  // With optimizer state in host memory: the share of it, from the first element that a rank owns on. The device keeps and updates the rest.
  double host_share = 1;

  bool sharded() const { return optimizer.sharded(); }
  bool operator==(const StatePlan&) const = default;
};

}  // namespace mbench
