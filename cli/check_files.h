// What commands do with check files (mbench.check/1) and fleets (mbench.fleet/1) instead of results.
#pragma once
#include <string>
#include <vector>

#include "health/fleet.h"

namespace mbench::cli {

// Whether the path is a file that holds a check or a fleet.
bool is_check_file(const std::string& path);
health::Health read_check(const std::string& path);
// A stored fleet, or the fleet of one check file.
health::Fleet read_fleet(const std::string& path);

// mbench report CHECK...: as markdown, JSON, JUnit XML or a page (HTML).
std::string report_checks(const std::vector<std::string>& paths, const std::string& format);

// mbench compare CHECK --baseline CHECK|FLEET|FOLDER. Prints each figure. Returns whether one is worse by more than the tolerance.
bool compare_checks(const std::string& now, const std::string& baseline, double tolerance, const std::string& format);

// mbench baseline add CHECK...: one entry of the history in FOLDER/checks.json, the fleet of these checks. Returns the path that was
// written.
std::string add_checks(const std::vector<std::string>& paths, const std::string& folder);
// mbench trend of that history: a line for each figure; empty where there is none.
std::string check_trends(const std::string& folder, const std::string& format);

// mbench check --fleet CHECK...: the fleet of these checks, and its outliers. A stored fleet among them is refused.
struct FleetRequest {
  std::vector<std::string> files, rules;
  double tolerance = 0.1;
  std::string format = "md", result;
};
int run_fleet(const FleetRequest& request);
// mbench check --fleet FLEET: what is an outlier of the fleet in a check, as lines; empty: nothing.
std::vector<std::string> against_fleet(const FleetRequest& request, const health::Health& check);
// Whether --fleet has check files to make a fleet, and not a stored fleet to compare with. Throws bad_input for a mix of both.
bool makes_fleet(const FleetRequest& request);

}  // namespace mbench::cli
