#include "reports/tables/builtin_tables.h"

#include <algorithm>
#include <map>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "reports/tables/published.h"

namespace mbench::table_files {
const EmbeddedFiles& files();  // of reports/tables/declarations
}
namespace mbench::metric_files {
const EmbeddedFiles& files();  // reports/tables/metrics.json
}

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string path_of(const std::string& name) {
  return "reports/tables/declarations/" + name + ".json";
}

const std::map<std::string, Json>& builtin_json() {
  static const std::map<std::string, Json> all = [] {
    std::map<std::string, Json> files;
    for (const auto& [name, text] : table_files::files()) files[name] = parse_json(text, path_of(name));
    return files;
  }();
  return all;
}

std::map<std::string, MetricFormat> read_metric_formats() {
  std::map<std::string, MetricFormat> formats;
  const Json file = parse_json(metric_files::files().at("metrics"), "reports/tables/metrics.json");
  for (const auto& [name, format] : file.items())
    formats[name] = {name, format.at("header").get<std::string>(), format.at("text").get<std::string>()};
  return formats;
}

}  // namespace

const std::vector<TableDeclaration>& builtin_tables() {
  static const std::vector<TableDeclaration> declarations = [] {
    std::vector<TableDeclaration> list;
    for (const auto& [name, json] : builtin_json()) {
      list.push_back(table_declaration_from_json(json, path_of(name) + ": $"));
      check(list.back().name == name, path_of(name), "calls itself \"{}\", need \"{}\"", list.back().name, name);
    }
    return list;
  }();
  return declarations;
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  for (const auto& [name, json] : builtin_json()) names.push_back(name);
  return names;
}

const Json* find_builtin_json(const std::string& name) {
  const auto it = builtin_json().find(name);
  return it == builtin_json().end() ? nullptr : &it->second;
}

const MetricFormat* find_metric_format(const std::string& name) {
  static const std::map<std::string, MetricFormat> formats = read_metric_formats();
  const auto it = formats.find(name);
  return it == formats.end() ? find_published_format(name) : &it->second;
}

}  // namespace mbench::reports
