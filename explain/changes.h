// The rows of changes.json.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mbench::explain {

struct Change {
  std::string what, confirm, condition;
  std::vector<std::pair<std::string, nlohmann::json>> set;  // fields
  std::vector<std::pair<std::string, double>> scale;        // figures of the machine that begin so
  std::vector<std::pair<std::string, std::string>> as;      // the same, at the value of another figure
};

struct Changes {
  std::vector<Change> simulated, measured_only;
  std::map<std::string, std::string> confirm_part;  // of a part of the step that takes longer
};
const Changes& changes();

}  // namespace mbench::explain
