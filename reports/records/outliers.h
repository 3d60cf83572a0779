// Which samples are outliers: Tukey's fences, 1.5 times the distance of the quartiles beyond them. A way of showing samples, not a
// reason to drop one.
#pragma once
#include <optional>
#include <vector>

namespace mbench::reports {

// One flag for each sample, in their order; nothing for fewer than four, which have no quartiles.
std::optional<std::vector<bool>> outliers_of(const std::vector<double>& samples);

}  // namespace mbench::reports
