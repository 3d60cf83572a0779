// A table as a test: the figures of some points, entered by hand, and the expected table. There is one JSON file for each. Those below
// test/reports/tables/declared/ are a golden test for every built-in table. Those below test/reports/tables/published/ are tables that
// others published.
//
//   "about"        What it is, and who published it.
//   "spec"         Of the result file; its "tables" may declare the table.
//   "environment"  Of the result file (optional).
//   "table"        --table (optional).
//
//   "common"       What all points share.
//   "columns", "points"  What they do not share. A point's figures are those of the result file. A number may stand for its
//                  statistics, and [mean, stddev] for them.
//
//   "prints"       The table, line by line, exactly; or
//   "published"    the table as it was published, in markdown: compared heading by heading and cell by cell.
//   "differs"      [{"row", "column", "ours", "why"}]: cells (rows from 1, over all sections) that cannot be the same.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "engine/point/result_file.h"
#include "reports/tables/report.h"
#include "test/reports/sample.h"

namespace mbench::reports::fixture {

using Json = nlohmann::ordered_json;

inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

inline Json statistics_json(const Json& given) {
  const double mean = given.is_array() ? given[0].get<double>() : given.get<double>();
  const double stddev = given.is_array() ? given[1].get<double>() : 0;
  return {{"mean", mean}, {"stddev", stddev}, {"median", mean},         {"p95", mean},
          {"min", mean},  {"max", mean},      {"samples", {mean, mean}}};
}

inline PointResult result_of(const Json& given, const std::string& where) {
  Json row = {{"outcome", "ok"}};
  Json point = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (value.is_null()) continue;
    const bool field = find_field(key) != nullptr;
    if (field)
      point[key] = row[key] = value;
    else if (key == "iteration_ms" && !value.is_object())
      row[key] = statistics_json(value);
    else if (key == "samples_per_s" && !value.is_object())
      row[key] = {{"mean", value.is_array() ? value[0] : value},
                  {"stddev", value.is_array() ? value[1] : Json(nullptr)}};
    else
      row[key] = value;
  }
  row["id"] = point_id(point_from_json(nlohmann::json(point), where));
  return result_from_json(nlohmann::json(row), where);
}

inline ResultFile file_of(const Json& fixture, const std::string& where) {
  ResultFile file;
  file.spec = fixture.at("spec");
  file.environment = fixture.value("environment", sample::environment());
  const Json& columns = fixture.at("columns");
  for (std::size_t i = 0; i < fixture.at("points").size(); ++i) {
    const Json& values = fixture["points"][i];
    Json given = fixture.value("common", Json::object());
    if (values.size() != columns.size()) throw std::runtime_error(where + ": a point of another length");
    for (std::size_t c = 0; c < columns.size(); ++c) given[columns[c].get<std::string>()] = values[c];
    file.points.push_back(result_of(given, where + ": points[" + std::to_string(i) + "]"));
  }
  return file;
}

inline ReportOptions options_of(const Json& fixture) {
  ReportOptions options;
  if (fixture.contains("table")) options.tables = {fixture["table"].get<std::string>()};
  return options;
}

// A markdown report without what stands above and below its tables.
inline std::string tables_of(const std::string& report) {
  const std::size_t begin = report.find("\n\n", report.find("\n\n") + 2) + 2;
  return report.substr(begin, report.find("- Model FLOPs") - begin);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    lines.push_back(text.substr(start, end - start));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace mbench::reports::fixture
