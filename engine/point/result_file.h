// The result file, results.json: the spec, where it ran, and what came of each point.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/point/result.h"

namespace mbench {

struct ResultFile {
  static constexpr const char* kSchema = "mbench.results/1";
  nlohmann::ordered_json spec;
  nlohmann::ordered_json environment;
  std::vector<PointResult> points;
};

// Reads and checks a result file: unreadable, empty, cut short, another major schema, duplicate ids are
// bad_input naming the file and JSON path.
ResultFile read_result_file(const std::string& path);
std::string result_file_text(const ResultFile& file);
// Atomically: a temporary beside it, flushed to disk, then renamed. On failure (full disk) the old file
// stands.
void write_result_file(const std::string& path, const ResultFile& file);

}  // namespace mbench
