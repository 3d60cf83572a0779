// What the graph of a step keeps and fuses (plan/plan.h: GraphStyle), and how attention is computed.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.capture) return not_built_in("capture true", "false");
  if (p.graph == Graph::megatron_core) return std::nullopt;
  if (p.cross_entropy_fusion != CrossEntropyFusion::te)
    return infeasible(
        "cross_entropy_fusion {} with graph {}, need graph megatron_core or cross_entropy_fusion te",
        name_of(p.cross_entropy_fusion), name_of(p.graph));
  if (!p.gradient_accumulation_fusion)
    return infeasible(
        "gradient_accumulation_fusion false with graph {}, need graph megatron_core or "
        "gradient_accumulation_fusion true",
        name_of(p.graph));
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.graph = graph_style(p.graph, p.cross_entropy_fusion, p.gradient_accumulation_fusion);
  plan.attention = p.attention;
}

}  // namespace

Strategy graph() {
  return {"graph",
          {"graph", "cross_entropy_fusion", "gradient_accumulation_fusion", "attention", "capture"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
