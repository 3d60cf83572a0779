// Sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models"): between blocks the activations are split along the sequence over the tensor-parallel ranks, so
// norms, dropouts and residuals are kept once. The all-reduces become all-gathers and reduce-scatters of the
// same volume.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (!p.sequence_parallel || p.seq % (p.tp * p.cp) == 0) return std::nullopt;
  const std::string ranks = p.cp == 1 ? fmt::format("tp {}", p.tp) : fmt::format("tp {} x cp {}", p.tp, p.cp);
  return infeasible("sequence_parallel needs seq {} to be a multiple of {}, need seq {}", p.seq, ranks,
                    nearest_multiples(p.seq, p.tp * p.cp));
}

std::vector<Choice> choices(const Point& p, std::int64_t) {
  Choice on{"sequence_parallel", {false}};
  if (p.tp > 1 && p.seq % (p.tp * p.cp) == 0) on.values.push_back(true);
  return {on};
}

void write(const Point& p, Plan& plan) {
  if (p.sequence_parallel) plan.hidden = plan.hidden.with(Axis::tp, shard(0), shard(0));
}

}  // namespace

Strategy sequence() {
  return {"sequence", {"sequence_parallel"}, refuse, choices, write};
}

}  // namespace mbench::strategies
