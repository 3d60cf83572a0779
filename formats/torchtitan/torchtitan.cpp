#include "formats/torchtitan/torchtitan.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <map>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/table/flat.h"
#include "formats/table/reading.h"
#include "formats/table/writing.h"

namespace mbench::torchtitan_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

constexpr std::size_t kMostTomlBytes = std::size_t{4} << 20;

constexpr std::pair<std::string_view, std::string_view> kFlavors[] = {
    {"llama3/8B", "llama-3-8b"},        {"llama3/70B", "llama-3-70b"},
    {"llama3/405B", "llama-3.1-405b"},  {"llama2/7B", "llama-2-7b"},
    {"llama2/13B", "llama-2-13b"},      {"llama2/70B", "llama-2-70b"},
    {"qwen3/0.6B", "qwen3-0.6b"},       {"qwen3/1.7B", "qwen3-1.7b"},
    {"qwen3/4B", "qwen3-4b"},           {"qwen3/8B", "qwen3-8b"},
    {"qwen3/14B", "qwen3-14b"},         {"qwen3/32B", "qwen3-32b"},
    {"qwen3/30B-A3B", "qwen3-30b-a3b"}, {"qwen3/235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3/671B", "deepseek-v3"}};

json json_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  json all = json::array();
  if (const auto* array = node.as_array())
    for (const toml::node& each : *array) all.push_back(json_of(each));
  return all;
}

void flatten_table(const toml::table& table, const std::string& prefix, const std::string& file,
                   std::vector<Item>& items) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const toml::table* within = node.as_table())
      flatten_table(*within, path + ".", file, items);
    else
      items.push_back({path, json_of(node), fmt::format("{}:{}", file, node.source().begin.line)});
  }
}

// A value as TOML writes it: numbers, booleans, texts and lists of them are JSON's.
std::string toml_text(const std::vector<std::pair<std::string, json>>& items) {
  std::map<std::string, std::string> sections;
  for (const auto& [key, value] : items) {
    const std::size_t dot = key.rfind('.');
    sections[key.substr(0, dot)] += fmt::format("{} = {}\n", key.substr(dot + 1), value.dump());
  }
  std::string text;
  for (const auto& [section, lines] : sections) text += fmt::format("\n[{}]\n{}", section, lines);
  return text;
}

}  // namespace

const Table& torchtitan_table() {
  static const Table table = [] {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const auto& [name, text] : torchtitan_files::files()) files.emplace_back(name, text);
    return read_table("options", files);
  }();
  return table;
}

std::string_view preset_of_flavor(std::string_view name_and_flavor) {
  for (const auto& [flavor, preset] : kFlavors)
    if (flavor == name_and_flavor) return preset;
  return "";
}

std::string_view flavor_of(const json& model) {
  json wanted = model;
  wanted.erase("positions");
  for (const auto& [flavor, preset] : kFlavors) {
    Point point;
    point.model = find_preset(std::string(preset), "model");
    json each(flat_point(point).at("model"));
    each.erase("positions");
    if (differences(ordered_json(each), ordered_json(wanted), "model").empty()) return flavor;
  }
  return "";
}

Imported read_torchtitan(std::string_view text, const std::string& file, const ImportOptions& options) {
  if (text.size() > kMostTomlBytes)
    fail(ErrorKind::bad_input, file, "a TOML of {} bytes, need {} at most", text.size(), kMostTomlBytes);
  std::vector<Item> items;
  try {
    flatten_table(toml::parse(text, file), "", file, items);
  } catch (const toml::parse_error& e) {
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file, e.source().begin.line), "not TOML: {}", e.description());
  }
  Reading reading(torchtitan_table(), std::move(items), file, options.without);
  reading.devices = options.devices;
  reading.read();
  return {reading.spec(), reading.notes()};
}

std::string write_torchtitan(const Point& given) {
  Point point = given;
  if (point.ep == 1 && point.etp == point.tp)
    point.etp = 0;  // the same, and the key is of experts on ranks of their own
  const ordered_json flat = flat_point(point);
  Writing writing(torchtitan_table(), flat);
  writing.write();
  std::vector<std::string> faults = writing.faults();
  std::string text;
  if (faults.empty()) {
    std::vector<std::pair<std::string, json>> items = writing.items();
    items.emplace_back("training.steps", point.iterations + point.warmup);
    text = fmt::format("# {}: {} devices. Written by mbench export.\n{}", point.model.name, point.world(),
                       toml_text(items));
    ordered_json spec = read_torchtitan(text, "the TOML", ImportOptions()).spec;
    faults = lost_fields(flat, flat_point(point_from_json(json(spec), "the TOML")));
    std::erase_if(faults, [](const std::string& fault) { return fault.starts_with("model.positions "); });
  }
  if (!faults.empty())
    fail(ErrorKind::unsupported, "torchtitan", "no TOML says {}, got {}", point.model.name, fmt::join(faults, "; "));
  return text;
}

}  // namespace mbench::formats
