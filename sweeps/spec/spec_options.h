// The options of a command that reads a spec (spec.h).
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mbench::sweeps {

struct SpecOptions {
  std::string path;
  std::vector<std::string> set;                     // "field=value"
  std::vector<std::string> filter;                  // "field=value"
  std::string device = "cpu";                       // of every point: --on
  std::optional<nlohmann::ordered_json> json = {};  // what the file says, where it has another form than a spec
};

}  // namespace mbench::sweeps
