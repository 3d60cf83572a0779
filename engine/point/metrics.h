// The measures of a result, one line each: the name in the result file, its unit, and how figures of several ranks become the point's. Also
// whether others may have published it. All code that writes, reads, merges or names measures uses this table. So a new measure is a member
// of PointResult and a line here. How it prints is a line of reports/tables/metrics.json, which a test checks against this table.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/point/result_fwd.h"

namespace mbench {

// How figures of single ranks become the point's.
enum class Merge {
  none,  // follows from other figures, is the same on every rank, or is kept for each
  max,   // of the rank that has most
  min,   // of the rank that has least
  mean   // over the ranks
};

struct Metric {
  std::string name;
  std::string_view unit;  // "MiB", "ms", "fraction"; empty for a text or a plain number
  Merge merge;
  bool publishable;                // whether it can be a figure of a spec's `published`: one number for a point
  std::vector<std::string> parts;  // of the dotted names: "mean", "weights", "first"; empty for a plain value
  std::function<nlohmann::ordered_json(const PointResult&)> write;  // null if unknown
  // Of a value that is not null; `where` is its JSON path.
  std::function<void(PointResult&, const nlohmann::json&, const std::string& where)> read;
};

// In the order of the result file.
const std::vector<Metric>& metrics();
// Internal error if there is no measure of that name.
const Metric& metric_named(std::string_view name);

// The point's figure of what each rank measured. NaN is unknown, and one unknown rank makes the point's figure unknown.
std::optional<double> merge_ranks(std::string_view metric, const std::vector<double>& of_ranks);

}  // namespace mbench
