#include "strategies/strategies.h"

#include "engine/base/error.h"

namespace mbench::strategies {

const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> table = {{"tensor", write_tensor},
                                              {"sequence", write_sequence},
                                              {"pipeline", write_pipeline},
                                              {"recompute", write_recompute},
                                              {"data_parallel", write_data_parallel}};
  return table;
}

Plan make_plan(const Point& point) {
  if (const auto reason = why_infeasible(point)) fail(ErrorKind::infeasible, "plan", "{}", *reason);
  if (const auto reason = why_unsupported(point)) fail(ErrorKind::unsupported, "plan", "{}", *reason);
  Plan plan;
  plan.point = point;
  plan.graph = graph_style(point.graph);
  for (const Strategy& s : all_strategies()) s.write(point, plan);
  return plan;
}

}  // namespace mbench::strategies
