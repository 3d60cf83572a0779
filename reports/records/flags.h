// What disturbed a measurement, seen only in its samples, in the order they were taken. Fewer than 12 samples say nothing. The spread
// is robust: 1.4826 times the median distance from the median.
//
//   warming     The first tenth (at least two samples) all lie above the median of the second half, by 5 % and by 4 spreads of it.
//               The warm-up was too short.
//   throttled   The last third's median lies 3 % above the first third's, and a rank test finds the second half slower with p < 0.001.
//               A clock went down, or a device became hot.
//
//   disturbed   At least two samples, and one in twenty, lie above the median by 10 % and by 6 spreads. Something else ran.
//               The first tenth of a run that was warming does not count.
//
// One flag is seen in the CPU time that the ranks were given instead:
//
//   starved     A rank's main thread had a core for less than three quarters of the measured time, though it always computes or polls.
//               Something else ran throughout, or there are more ranks than cores.
//
// And one that devices report themselves:
//
//   faulty      An Xid, an uncorrected ECC error, an error of NVLink or a remapped row came while it was measured.
//
// A flag is a remark next to the row and no verdict.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"

namespace mbench::reports {

enum class Flag { warming, throttled, disturbed };

std::vector<Flag> flags_of(const std::vector<double>& samples);

// "throttled: the last third of the samples is slower than the first".
std::string text_of(Flag flag);
std::string name_of(Flag flag);  // its first word

// What made all times of a measured point longer than the program takes: starved, throttled or faulty, with the texts used here; usually
// nothing.
std::vector<std::string> what_disturbed(const PointResult& result);

// "faulty: the devices reported Xid 79 on rank 3 after 80 min"; empty if they reported none.
std::string faulty_text(const PointResult& result);
// "starved: rank 1 had a core for 48 % of the time, ..."; empty if none was.
std::string starved_text(const std::vector<double>& cpu_share_by_rank);

}  // namespace mbench::reports
