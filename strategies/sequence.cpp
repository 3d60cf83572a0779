// Sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models"): between blocks the activations are split along the sequence over the tensor-parallel ranks, so
// norms, dropouts and residuals are kept once. The all-reduces become all-gathers and reduce-scatters of the
// same volume. With `tp_comm_overlap` they travel in parts beside the layers' products; with `tp_gathers` product each product of a
// block gathers its input for itself.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal why_not_each_product(const Point& p) {
  if (p.tp == 1 || !p.sequence_parallel)
    return infeasible("tp_gathers product with tp {} and sequence_parallel {}, need tp 2 or more with sequence_parallel true",
                      p.tp, p.sequence_parallel);
  const auto not_with = [](const std::string& what, std::string_view need) {
    return not_built_in(fmt::format("tp_gathers product with {}", what), fmt::format("{} or tp_gathers block", need));
  };
  if (p.tp_comm_overlap) return not_with("tp_comm_overlap true", "tp_comm_overlap false");
  if (p.precision == Precision::fp8) return not_with("precision fp8", "precision bf16");
  if (p.model.experts > 0 || p.model.parts().attention_form == AttentionForm::latent) return not_with("experts or latent attention", "a dense model");
  if (p.recompute.regions.has(Region::norm) || p.recompute.regions.has(Region::alternate_products))
    return not_with(fmt::format("recompute {}", name_of(p.recompute)), "recompute none, core_attention or full");
  return std::nullopt;
}

MaybeRefusal refuse(const Point& p) {
  if (p.tp_gathers == TpGathers::product)
    if (auto why = why_not_each_product(p)) return why;
  if (p.tp_comm_overlap && (p.tp == 1 || !p.sequence_parallel))
    return infeasible("tp_comm_overlap true with tp {} and sequence_parallel {}, need tp 2 or more with sequence_parallel true",
                      p.tp, p.sequence_parallel);
  if (!p.sequence_parallel || p.seq % (p.tp * p.cp) == 0) return std::nullopt;
  const std::string ranks = p.cp == 1 ? fmt::format("tp {}", p.tp) : fmt::format("tp {} x cp {}", p.tp, p.cp);
  return infeasible("sequence_parallel needs seq {} to be a multiple of {}, need seq {}", p.seq, ranks,
                    nearest_multiples(p.seq, p.tp * p.cp));
}

std::vector<Choice> choices(const Point& p, std::int64_t) {
  Choice on{"sequence_parallel", {false}}, overlap{"tp_comm_overlap", {false}, true};
  if (p.tp > 1 && p.seq % (p.tp * p.cp) == 0) on.values.push_back(true);
  if (p.tp > 1 && p.sequence_parallel) overlap.values.push_back(true);
  return {on, overlap};
}

void write(const Point& p, Plan& plan) {
  plan.tp_comm_overlap = p.tp_comm_overlap;
  plan.tp_gathers = p.tp_gathers;
  if (p.sequence_parallel) plan.hidden = plan.hidden.with(Axis::tp, shard(0), shard(0));
}

}  // namespace

Strategy sequence() {
  return {"sequence", {"sequence_parallel", "tp_gathers", "tp_comm_overlap"}, refuse, choices, write};
}

}  // namespace mbench::strategies
