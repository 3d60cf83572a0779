// What disturbed a measurement, seen in its samples alone, in the order they were taken. Fewer than 12
// samples say nothing. The spread is robust: 1.4826 times the median distance from the median.
//   warming     the first tenth (at least two samples) all lie above the median of the second half by 5 % and
//   by 4 spreads of it:
//               the warm-up was too short
//   throttled   the last third's median lies 3 % above the first third's, and a rank test between the two
//   halves finds the
//               second slower with p < 0.001: a clock that went down, a device that became hot
//   disturbed   at least two samples, and one in twenty, lie above the median by 10 % and by 6 spreads:
//   something else ran
//               (of a run that was warming, the first tenth aside)
// A flag is a remark beside the row and no verdict.
#pragma once
#include <string>
#include <vector>

namespace mbench::reports {

enum class Flag { warming, throttled, disturbed };

std::vector<Flag> flags_of(const std::vector<double>& samples);

// "throttled: the last third of the samples is slower than the first".
std::string text_of(Flag flag);
std::string name_of(Flag flag);  // its first word

}  // namespace mbench::reports
