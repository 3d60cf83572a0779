// Context parallelism (Megatron-Core): the sequence is split in all of the model, attention included.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.cp > 1) return not_built_in(fmt::format("cp {}", p.cp), "cp 1");
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.mesh.resize(Axis::cp, static_cast<int>(p.cp));
}

}  // namespace

Strategy context() {
  return {"context", {"cp"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
