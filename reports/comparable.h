// Which points of two result files may be compared, and why others may not.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "engine/api/result.h"

namespace mbench {

struct Matches {
  // For each point of NEW the baseline's point of the same id, or else the one that differs in device and
  // precision alone; both null where there is neither.
  std::vector<const PointResult*> same, alike;
  std::vector<std::size_t> missing;  // points of the baseline that NEW has nothing for
};
Matches match_points(const ResultFile& now, const ResultFile& baseline);

// Empty if they may be compared.
std::string why_points_not_comparable(const PointResult& now, const PointResult& baseline);

// bad_input if nothing in the two files can be compared: another FLOP formula, measured on other hardware, or
// no two points of one configuration.
void refuse_unlike_files(const ResultFile& now, const ResultFile& baseline, const Matches& matches);

// What of the environment differs and may: versions of drivers and libraries, the host's name.
std::vector<std::string> environment_changes(const ResultFile& now, const ResultFile& baseline);

}  // namespace mbench
