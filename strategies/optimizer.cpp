// What updates weights from gradients, and in how many launches.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.optimizer != OptimizerKind::adamw)
    return not_built_in(fmt::format("optimizer {}", name_of(p.optimizer)), "adamw");
  if (!p.fused_optimizer) return not_built_in("fused_optimizer false", "true");
  return std::nullopt;
}

}  // namespace

Strategy optimizer() {
  return {"optimizer", {"optimizer", "fused_optimizer"}, refuse, nullptr, nullptr};
}

}  // namespace mbench::strategies
