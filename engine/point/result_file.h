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

// Reads and checks a result file. bad_input naming the file and JSON path if it is unreadable, empty, cut short, of another major schema,
// or has duplicate ids.
ResultFile read_result_file(const std::string& path);
std::string result_file_text(const ResultFile& file);
// Atomic: writes a temporary next to it, flushes to disk, then renames. On failure (full disk) the old file stays.
void write_result_file(const std::string& path, const ResultFile& file);

}  // namespace mbench
