// Whether the points of a file meet the gates of its spec (engine/point/gates.h).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/records/record.h"
#include "reports/tables/table.h"

namespace mbench::reports {

struct GateVerdicts {
  int held = 0, failed = 0;
  // "gates: 1 of 2 failed: iteration_ms 29210 is more than 28000 (tp 8)"
  std::string headline() const;
  std::vector<std::string> failures;  // "iteration_ms 29210 is more than 28000 (tp 8)"
  Table table;  // a row for each gate of each point: what was asked for, what came, whether that is enough
};

// Nothing where the spec has no gates. `swept`: the fields that label a point. A point without such a number, because it did not run or
// did not measure it, fails.
std::optional<GateVerdicts> judge_gates(const nlohmann::ordered_json& spec, const std::vector<const Record*>& points,
                                        const std::vector<std::string>& swept);

}  // namespace mbench::reports
