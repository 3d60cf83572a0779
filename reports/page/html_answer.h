// What a page opens with: the best and the worst point, what bounds each, and which points are flagged or have no time.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/records/record.h"

namespace mbench::reports {

// Points of one model are ranked by tokens per second and device. Where models differ, a token is not the same work, so it is FLOP/s of
// the model per device. `prefix` starts the ids of the points, to which their names link. `level`: of its heading.
std::string html_answer(const ResultFile& file, const std::vector<const Record*>& points,
                        const std::vector<std::string>& swept, const std::string& prefix, int level);

}  // namespace mbench::reports
