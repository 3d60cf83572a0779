// A comparison as JUnit XML, as GitLab, Jenkins and GitHub's test reporters show it: one test case per point
// and metric. What fails the comparison is a failure; ambiguous, missing, new and not comparable are skipped,
// with the reason; the rest passes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reports/gate/compare.h"

namespace mbench::reports {

std::string to_junit(const Comparison& comparison);

// The plain text of any of them, which is escaped here.
struct JunitCase {
  struct Failure {
    std::string type, message;
  };
  std::string classname, name;
  std::vector<Failure> failures;
  std::string skipped;              // why; empty: it was not
  std::vector<std::string> output;  // lines
};
// One suite of that name; `environment`: a property each.
std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases,
                      const std::vector<std::string>& environment = {});

// Text inside XML, attributes included: markup is escaped, what XML cannot hold becomes a space.
std::string escape_xml(std::string_view text);

}  // namespace mbench::reports
