// Strategies: each writes its part of the Plan from the fields of a point that it owns. They run in the order
// of kStrategies; a later one may read what an earlier one wrote. To add one: a file here and a line in the
// table.
#pragma once
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace mbench::strategies {

struct Strategy {
  std::string_view name;
  void (*write)(const Point& point, Plan& plan);
};

void write_tensor(const Point& point, Plan& plan);
void write_sequence(const Point& point, Plan& plan);
void write_pipeline(const Point& point, Plan& plan);
void write_recompute(const Point& point, Plan& plan);
void write_data_parallel(const Point& point, Plan& plan);

const std::vector<Strategy>& all_strategies();

// The whole Plan of a point. Throws infeasible or unsupported with the reason.
Plan make_plan(const Point& point);

// The list of one stage's actions; every schedule is made here.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches);

}  // namespace mbench::strategies
