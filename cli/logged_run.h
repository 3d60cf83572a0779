// A trainer's log with what was trained, as the row of a result: for import-log and explain.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "formats/logs/read_log.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {

struct LoggedRun {
  PointResult result;
  nlohmann::ordered_json spec;
  std::vector<std::string> notes;
};

// `log` is a path, "-" standard input. `spec` without a path: what the log itself says. Throws bad_input for a spec of several points.
LoggedRun read_logged_run(const std::string& log, sweeps::SpecOptions spec, const std::string& trainer,
                          const formats::LogOptions& how);

}  // namespace mbench::cli
