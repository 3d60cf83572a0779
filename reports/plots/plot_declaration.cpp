#include "reports/plots/plot_declaration.h"

#include <algorithm>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"

namespace mbench::plot_files {
const EmbeddedFiles& files();  // of reports/plots/declarations
}

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr Choices<PlotKind, 5> kKinds = {{{"lines", PlotKind::lines},
                                          {"samples", PlotKind::samples},
                                          {"windows", PlotKind::windows},
                                          {"stacked", PlotKind::stacked},
                                          {"timeline", PlotKind::timeline}}};

// Of every point it shows many values, all in one row of the table.
bool many_to_a_point(PlotKind kind) {
  return kind == PlotKind::samples || kind == PlotKind::windows;
}

std::string text_at(ObjectReader& reader, const std::string& key, bool required = false) {
  if (required) return read_string(reader.require(key, "a text"), reader.path(key));
  const nlohmann::json* found = reader.find(key);
  return found ? read_string(*found, reader.path(key)) : "";
}

// What the table language needs for a column that shows one metric.
Json plain_column(const std::string& header, const std::string& metric) {
  return {{"header", header}, {"text", "{" + metric + "}"}};
}

Json columns_of(ObjectReader& reader, PlotDeclaration& plot) {
  Json columns = Json::array();
  if (plot.kind == PlotKind::stacked) {
    const nlohmann::json& parts = reader.require("parts", "an object of name: metric");
    if (!parts.is_object() || parts.empty())
      fail(ErrorKind::bad_input, reader.path("parts"), "got {}, need an object of name: metric", short_json(parts));
    return columns;  // filled by the caller, from the JSON that keeps their order
  }
  const nlohmann::json& y = reader.require("y", "a metric or a comparison");
  if (y.is_string()) {
    plot.metric = y.get<std::string>();
    // Any value of the point will do to find it in the table: the many are read from the record.
    columns.push_back(plain_column("y", many_to_a_point(plot.kind) ? "id" : plot.metric));
    return columns;
  }
  if (many_to_a_point(plot.kind))
    fail(ErrorKind::bad_input, reader.path("y"), "got {}, need the name of {}", short_json(y),
         plot.kind == PlotKind::samples ? "an array" : "a value of a window");
  Json column = y;
  if (column.is_object()) column["header"] = "y";
  columns.push_back(column);
  return columns;
}

}  // namespace

PlotDeclaration plot_from_json(const std::string& name, const Json& json, const std::string& where) {
  const nlohmann::json plain(json);
  ObjectReader reader(plain, where);
  PlotDeclaration plot;
  plot.name = name;
  plot.kind =
      read_choice(reader.require("kind", "lines, samples, windows, stacked or timeline"), reader.path("kind"), kKinds);
  plot.title = text_at(reader, "title", true);
  plot.x_label = text_at(reader, "x_label");
  plot.note = text_at(reader, "note");
  if (const auto* place = reader.find("place")) plot.place = read_number(*place, reader.path("place"));
  if (plot.kind == PlotKind::timeline) {
    reader.refuse_unknown();
    return plot;
  }
  plot.y_label = text_at(reader, "y_label");
  if (const auto* scale = reader.find("scale")) plot.scale = read_number(*scale, reader.path("scale"));
  Json table = {{"name", name}};
  table["columns"] = columns_of(reader, plot);
  if (plot.kind == PlotKind::stacked)
    for (const auto& [part, metric] : json.at("parts").items()) {
      plot.parts.push_back(read_string(metric, reader.path("parts") + "." + part));
      table["columns"].push_back(plain_column(part, plot.parts.back()));
    }
  std::string label;  // of a row
  if (plot.kind == PlotKind::lines) {
    plot.x = text_at(reader, "x", true);
    label = "{" + plot.x + "}";
    plot.spread = text_at(reader, "spread");
    if (!plot.spread.empty() && plot.metric.empty())
      fail(ErrorKind::bad_input, reader.path("spread"), "goes with a plain \"y\", got a comparison");
    if (const auto* ideal = reader.find("ideal")) plot.ideal = read_bool(*ideal, reader.path("ideal"));
    table["pivot"] = text_at(reader, "series", true);
  } else {
    if (plot.kind == PlotKind::windows) plot.x = text_at(reader, "x", true);
    label = text_at(reader, plot.kind == PlotKind::stacked ? "bars" : "series", true);
  }
  table["rows"] = Json::array({{{"header", "label"}, {"text", label}}});
  for (const char* key : {"sections", "where", "labels"})
    if (reader.find(key)) table[key] = json.at(key);
  reader.refuse_unknown();
  plot.table = table_declaration_from_json(table, where);
  return plot;
}

const std::vector<PlotDeclaration>& plot_declarations() {
  static const std::vector<PlotDeclaration> all = [] {
    std::vector<PlotDeclaration> list;
    for (const auto& [name, text] : plot_files::files()) {
      const std::string where = "reports/plots/declarations/" + name + ".json";
      list.push_back(plot_from_json(name, parse_json(text, where), where + ": $"));
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
    return list;
  }();
  return all;
}

}  // namespace mbench::reports
