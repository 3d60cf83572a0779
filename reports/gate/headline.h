// The first line of a comparison: the answer, where, and what was compared. Examples: "7.0 % slower: strategy baseline (2 of 6
// points)", "undecided in 2 of 2 points", "no regression in 6 points". After it come the machine and both revisions.
#pragma once
#include <string>

#include "reports/gate/compare.h"

namespace mbench::reports {

std::string headline_of(const Comparison& comparison);

// "V100 x 8, abc1234 against def5678"; what is not known is left out.
std::string subject_of(const Comparison& comparison);

}  // namespace mbench::reports
