// Sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models"): between blocks the activations are split along the sequence over the tensor-parallel ranks, so
// norms, dropouts and residuals are kept once. The all-reduces become all-gathers and reduce-scatters of the
// same volume. With `tp_comm_overlap` they travel in parts beside the layers' products; with `tp_gathers` product each product of a
// block gathers its input for itself.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Whether activations between blocks are split over several ranks.
bool split(const Point& p) {
  return p.tp > 1 && p.sequence_parallel;
}

Fault not_split(const Point& p, std::string_view what, const Way& without) {
  const Way with = p.sequence_parallel ? within("tp", 2, p.model.heads) : one_of("sequence_parallel", "true");
  return infeasible({with, without}, "{} with tp {} and sequence_parallel {}", what, p.tp, p.sequence_parallel);
}

MaybeFault why_not_each_gemm(const Point& p) {
  constexpr Way block = one_of("tp_gathers", "block");
  if (!split(p)) return not_split(p, "tp_gathers product", block);
  const auto not_with = [&](const Way& way, std::string_view what) {
    return not_built_in({way, block}, "tp_gathers product with {}", what);
  };
  if (p.tp_comm_overlap) return not_with(one_of("tp_comm_overlap", "false"), "tp_comm_overlap true");
  if (quantises(p.precision))
    return not_with(one_of("precision", "bf16"), fmt::format("precision {}", name_of(p.precision)));
  if (p.model.experts > 0 || p.model.parts().attention_form == AttentionForm::latent)
    return not_built_in({block}, "tp_gathers product with experts or latent attention");
  if (p.recompute.regions.has(Region::norm) || p.recompute.regions.has(Region::alternate_gemms))
    return not_with(one_of("recompute", "none|core_attention|full"), fmt::format("recompute {}", name_of(p.recompute)));
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  constexpr Way kSequential = one_of("model.branches", "sequential");
  const Branches branches = p.model.parts().branches;
  if (branches != Branches::sequential && p.tp_comm_overlap)
    return not_built_in({one_of("tp_comm_overlap", "false"), kSequential}, "tp_comm_overlap true with branches {}",
                        name_of(branches));
  if (branches != Branches::sequential && p.tp_gathers == TpGathers::gemm)
    return not_built_in({one_of("tp_gathers", "block"), kSequential}, "tp_gathers product with branches {}",
                        name_of(branches));
  if (p.tp_gathers == TpGathers::gemm)
    if (auto why = why_not_each_gemm(p)) return why;
  if (p.tp_comm_overlap && !split(p)) return not_split(p, "tp_comm_overlap true", one_of("tp_comm_overlap", "false"));
  if (!p.sequence_parallel || p.seq % (p.tp * p.cp) == 0) return std::nullopt;
  const std::string ranks = p.cp == 1 ? fmt::format("tp {}", p.tp) : fmt::format("tp {} x cp {}", p.tp, p.cp);
  return infeasible({multiple("seq", p.tp * p.cp), one_of("sequence_parallel", "false")},
                    "sequence_parallel needs seq {} to be a multiple of {}", p.seq, ranks);
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
