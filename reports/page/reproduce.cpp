#include "reports/page/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/point/fields.h"
#include "engine/point/result_file.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The fields of the spec's "sweep", those of a zip one by one.
std::vector<std::string> fields_of_sweep(const Json& spec) {
  std::vector<std::string> fields;
  if (!spec.contains("sweep") || !spec["sweep"].is_object()) return fields;
  for (const auto& [key, values] : spec["sweep"].items()) {
    std::string field;
    for (const char c : key + ",") {
      if (c == ' ') continue;
      if (c != ',') {
        field += c;
        continue;
      }
      if (!field.empty()) fields.push_back(field);
      field.clear();
    }
  }
  return fields;
}

// A value as --filter reads it: a text as it is, unless it would parse as something else.
std::string filter_value(const Json& value) {
  if (!value.is_string()) return dump(value);
  const std::string text = value.get<std::string>();
  return Json::accept(text) ? dump(value) : text;
}

}  // namespace

std::string shell_word(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("@%+=:,./-_").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string reproduce_command(const ResultFile& file, const std::string& path, const Record& record,
                              const std::vector<std::string>& swept) {
  const Json& point = record.json();
  const Json& spec = file.spec;
  if (!spec.is_object() || !(spec.contains("model") || spec.contains("sweep"))) {
    Json fields = Json::object();
    for (const std::string& key : point_keys())
      if (point.contains(key)) fields[key] = point[key];
    for (const PointField& former : former_point_fields())  // a record has the name of a precision alone
      if (former.part_of == "precision" && point.contains(former.key)) fields[former.key] = point[former.key];
    const std::string name = record.id() + ".point.json";
    return fmt::format("printf '%s\\n' {} > {} && mpirun -np {} mbench run {}", shell_word(dump(fields)), name,
                       dump(point.at("world")), name);
  }
  std::string command = fmt::format("mbench sweep {} --on {}", shell_word(path), shell_word(record.text("device")));
  // Of a search, whose spec sweeps over nothing, the fields in which the layouts that it found differ.
  for (const std::string& field : spec.contains("sweep") ? fields_of_sweep(spec) : swept) {
    const Json value = point.contains(field) ? point[field] : record.value(field);
    if (value.is_null()) continue;
    command += " --filter " + shell_word(field + "=" + filter_value(value));
  }
  return command;
}

}  // namespace mbench::reports
