// A comparison as JUnit XML, as GitLab, Jenkins and GitHub's test reporters show it: one test case per point
// and metric. What fails the comparison is a failure; ambiguous, missing, new and not comparable are skipped,
// with the reason; the rest passes.
#pragma once
#include <string>
#include <string_view>

#include "reports/gate/compare.h"

namespace mbench::reports {

std::string to_junit(const Comparison& comparison);

// Text inside XML, attributes included: markup is escaped, what XML cannot hold becomes a space.
std::string escape_xml(std::string_view text);

}  // namespace mbench::reports
