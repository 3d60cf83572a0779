#include "engine/sim/machine/what_if.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench::sim {
namespace {

using nlohmann::ordered_json;

// Calls `found` with every figure below `json`, {"value": number, "source": text}, and its path.
void each_figure(ordered_json& json, const std::string& path,
                 const std::function<void(const std::string&, ordered_json&)>& found) {
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) each_figure(json[i], fmt::format("{}[{}]", path, i), found);
    return;
  }
  if (!json.is_object()) return;
  if (const auto value = json.find("value"); value != json.end() && value->is_number()) return found(path, json);
  for (auto& [key, below] : json.items()) each_figure(below, path.empty() ? key : path + "." + key, found);
}

}  // namespace

Machine find_machine(const std::string& name, const std::map<std::string, double>& figures, const std::string& where) {
  if (figures.empty()) return find_machine(name, where);
  auto [json, file] = load_machine(name, where);
  std::map<std::string, ordered_json*> by_path;
  std::vector<std::string> paths;
  each_figure(json, "", [&](const std::string& path, ordered_json& figure) {
    by_path[path] = &figure;
    paths.push_back(path);
  });
  for (const auto& [path, value] : figures) {
    const auto found = by_path.find(path);
    if (found == by_path.end())
      fail(ErrorKind::bad_input, fmt::format("machine.{}", path), "no figure of {}, got \"{}\", {}", file, path,
           nearest_choice(path, paths));
    (*found->second)["value"] = value;
    (*found->second)["source"] = fmt::format("set by the spec: machine.{}", path);
  }
  return machine_from_json(json, file + ", as the spec sets it");
}

Machine cut_to(Machine machine, std::int64_t ranks_per_node, const std::string& where) {
  const int devices = machine.node.devices;
  if (ranks_per_node > devices)
    fail(ErrorKind::bad_input, where, "got {} ranks on a node of {}, need {} at most, which is its devices",
         ranks_per_node, machine.name, devices);
  const auto ranks = static_cast<int>(ranks_per_node);
  machine.network.adapters *= static_cast<double>(ranks) / devices;
  machine.node.devices = ranks;
  return machine;
}

std::vector<MachineFigure> figures_of(const std::string& name, const std::string& where) {
  auto [json, file] = load_machine(name, where);
  std::vector<MachineFigure> all;
  each_figure(json, "", [&](const std::string& path, ordered_json& figure) {
    all.push_back({path, figure.at("value").get<double>()});
  });
  return all;
}

}  // namespace mbench::sim
