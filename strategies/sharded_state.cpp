// Where weights, gradients and optimizer state lie over the ranks that replicate them (ZeRO: Rajbhandari et al. 2020), and
// on the device or the host.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.zero > 0) return not_built_in(fmt::format("zero {}", p.zero), "zero 0");
  if (p.offload != Offload::none) return not_built_in(fmt::format("offload {}", name_of(p.offload)), "none");
  return std::nullopt;
}

}  // namespace

Strategy sharded_state() {
  return {"sharded state", {"zero", "offload"}, refuse, nullptr, nullptr};
}

}  // namespace mbench::strategies
