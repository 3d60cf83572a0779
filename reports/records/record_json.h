// What a record (record.h) keeps of a result: its JSON, a row for each rank or window of it, and the remark on its row.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "reports/records/stragglers.h"

namespace mbench::reports {

// The result's JSON without its longest arrays; tables print only their first, last and size.
nlohmann::ordered_json brief_json(const PointResult& result);
// What "rank" is in the records of a point's ranks.
nlohmann::ordered_json ranks_json(const PointResult& result, const std::vector<RankTimes>& times);
// What "window" is in the records of a soak's windows.
nlohmann::ordered_json windows_json(const Soak& soak);
// What disturbed a measurement, by its flags, soak and ranks (flags.h, soak_findings.h, stragglers.h); empty where nothing did.
std::string flagged_text(const PointResult& result);
// The remark on the row of a point: its reason, and what disturbed a measurement.
std::string reason_of(const PointResult& result);

}  // namespace mbench::reports
