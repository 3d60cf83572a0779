// What the graph of a step keeps and fuses (plan/plan.h: GraphStyle), and how attention is computed.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.graph == Graph::captured) return not_built_in("graph captured", "eager or fused");
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.graph = graph_style(p.graph);
  plan.attention = p.attention;
}

}  // namespace

Strategy graph() {
  return {"graph", {"graph", "attention"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
