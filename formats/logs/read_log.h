// A trainer's log as a row of results. Its lines show which trainer wrote it. All tables read it at once, so it is read only once and
// can be a pipe.
#pragma once
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/logs/log.h"

namespace mbench {
struct Point;
struct PointResult;
}  // namespace mbench

namespace mbench::formats {

// Throws bad_input if no trainer's steps are in it. `program`: read only that trainer's lines; empty: whichever trainer's are there.
Log read_log(std::istream& in, const std::string& file, const std::string& program = "");
// Names that `program` may have.
std::vector<std::string> log_programs();

// What was trained, by the arguments that Megatron-LM prints as it starts. Throws bad_input for a log without.
nlohmann::ordered_json spec_of(const Log& log, const std::string& file);

struct LogOptions {
  int warmup = -1;     // records that are no samples; below 0: by how much longer they are
  std::string device;  // its name, where the log has none
};

// The row of a run of this point. Throws bad_input where the log has another batch or number of ranks than the point, or neither times
// nor losses.
PointResult result_of(const Log& log, const Point& point, const std::string& file, const LogOptions& options);

}  // namespace mbench::formats
