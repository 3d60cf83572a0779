// Checks and fleets as one HTML page that needs nothing else (mbench report CHECK --format html).
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "health/fleet.h"

namespace mbench::cli {

struct CheckSource {
  std::string path;
  std::variant<health::Health, health::Fleet> content;
  double tolerance = 0.1;  // of a check
};

std::string check_page(const std::vector<CheckSource>& sources);

}  // namespace mbench::cli
