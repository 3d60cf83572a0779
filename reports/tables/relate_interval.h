// What a comparison of two measured times is worth: the interval in which the change lies, from the spread of the steps of both.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/records/statistics.h"
#include "reports/tables/cell_text.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {

// Whether a column compares the mean steps of points, or their rates, so that it has an interval.
bool compares_steps(const ColumnDeclaration& column);

// The interval of the related value, such as an overhead of -0.40 to +0.03, at RatioBootstrap::kConfidence (mean_ratio.h). Nothing
// where a side is simulated, has one sample, or stands for several seeds.
struct RelatedInterval {
  Interval interval;
  bool holds_no_change = false;
};
std::optional<RelatedInterval> related_interval(const Record& point, const Record& reference,
                                                const ColumnDeclaration& column);

// " [-40, +3] (noise)", with the digits that its width leaves.
std::string interval_text(const RelatedInterval& related, const ColumnDeclaration& column, Formatter& formatter);
inline constexpr const char* kIntervalNote =
    "[ ]: the 99 % interval of the change, by the spread of the steps. (noise): it holds no change, so that none was "
    "measured.";

}  // namespace mbench::reports
