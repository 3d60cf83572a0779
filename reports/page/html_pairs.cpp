#include "reports/page/html_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/point/metrics.h"
#include "reports/tables/builtin_tables.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// Each metric as it prints, and its other parts.
std::vector<std::string> names_of_metrics() {
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) {
    if (find_metric_format(metric.name)) names.push_back(metric.name);
    for (const std::string& part : metric.parts)
      if (const std::string name = metric.name + "." + part; part != "mean" && find_metric_format(name))
        names.push_back(name);  // the mean stands for the metric
  }
  return names;
}

}  // namespace

std::string html_pairs(const std::vector<const Record*>& points, const std::vector<std::string>& swept,
                       const std::string& prefix) {
  if (points.size() < 2 || points.size() > kMostPaired) return "";
  std::vector<std::string> names = swept;
  for (std::string& name : names_of_metrics()) names.push_back(std::move(name));
  Formatter formatter(points);
  Json headers = Json::array(), rows = Json::object();
  for (const Record* point : points) rows[point->id()] = Json::array();
  for (const std::string& name : names) {
    const ColumnDeclaration column = column_of(name);
    const auto unknown = [&](const Record* point) {
      const std::vector<std::string> needs = column.lines.front().names();
      return std::all_of(needs.begin(), needs.end(), [&](const std::string& n) { return point->value(n).is_null(); });
    };
    if (std::all_of(points.begin(), points.end(), unknown)) continue;
    headers.push_back(column.header);
    for (const Record* point : points)
      rows[point->id()].push_back(unknown(point) ? Json(nullptr)
                                                 : Json(formatter.format(column.lines.front(), *point, {})));
  }
  std::string json = Json{{"names", headers}, {"points", rows}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in it may end the element.
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return fmt::format("<script type=\"application/json\" id=\"{}pairs\">{}</script>\n", prefix, json);
}

}  // namespace mbench::reports
