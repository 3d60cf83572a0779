#include "engine/point/hosts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// "NVIDIA H200 at 0000:1b:00.0" -> "NVIDIA H200".
std::string model_of(const std::string& gpu) {
  return gpu.substr(0, gpu.rfind(" at "));
}

// "NVIDIA H200, NVIDIA L4". How many of them is no difference: a point need not use all of a host.
std::string gpus_text(const Host& host) {
  std::set<std::string> models;
  for (const std::string& gpu : host.gpus) models.insert(model_of(gpu));
  return fmt::format("{}", fmt::join(models, ", "));
}

// "h1, h2 and 6 more".
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
  return names.size() <= kMost ? text : fmt::format("{} and {} more", text, names.size() - kMost);
}

}  // namespace

ordered_json hosts_to_json(const std::vector<Host>& hosts) {
  ordered_json out = ordered_json::array();
  for (const Host& h : hosts) {
    ordered_json o = {{"name", h.name}, {"cpu", h.cpu}, {"cores", h.cores}, {"memory_bytes", h.memory_bytes}};
    if (!h.gpus.empty()) o["gpus"] = h.gpus;
    if (!h.driver.empty()) o["driver"] = h.driver;
    o["mpi"] = h.mpi;
    o["revision"] = h.revision;
    if (!h.variables.empty()) o["variables"] = h.variables;
    o["ranks"] = h.ranks;
    out.push_back(std::move(o));
  }
  return out;
}

std::vector<Host> hosts_from_json(const json& value, const std::string& where) {
  if (!value.is_array())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an array of hosts", short_json(value));
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < value.size(); ++i) {
    ObjectReader reader(value[i], fmt::format("{}[{}]", where, i));
    const auto text = [&](const char* key) {
      const json* found = reader.find(key);
      return found && !found->is_null() ? read_string(*found, reader.path(key)) : "";
    };
    const auto list = [&](const char* key, const auto& take) {
      const json* found = reader.find(key);
      if (!found) return;
      if (!found->is_array())
        fail(ErrorKind::bad_input, reader.path(key), "wrong type, got {}, need an array", short_json(*found));
      for (std::size_t k = 0; k < found->size(); ++k) take((*found)[k], fmt::format("{}[{}]", reader.path(key), k));
    };
    Host h;
    h.name = read_string(reader.require("name", "the name of the host"), reader.path("name"));
    h.cpu = text("cpu");
    if (const json* cores = reader.find("cores")) h.cores = read_int(*cores, reader.path("cores"), 0, 1 << 20);
    if (const json* bytes = reader.find("memory_bytes"))
      h.memory_bytes = read_uint(*bytes, reader.path("memory_bytes"));
    list("gpus", [&](const json& gpu, const std::string& at) { h.gpus.push_back(read_string(gpu, at)); });
    h.driver = text("driver");
    h.mpi = text("mpi");
    h.revision = text("revision");
    if (const json* variables = reader.find("variables")) {
      ObjectReader(*variables, reader.path("variables"));
      for (const auto& [name, v] : variables->items())
        h.variables[name] = read_string(v, reader.path("variables") + "." + name);
    }
    list("ranks", [&](const json& rank, const std::string& at) { h.ranks.push_back(read_int(rank, at, 0, 1 << 30)); });
    hosts.push_back(std::move(h));
  }
  return hosts;
}

std::vector<Host> merge_hosts(const std::vector<Host>& by_rank) {
  std::vector<Host> hosts;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Host& mine = by_rank[rank];
    auto at = std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == mine.name; });
    if (at == hosts.end()) {
      at = hosts.insert(hosts.end(), mine);
      at->ranks.clear();
      at->gpus.clear();
    }
    at->ranks.push_back(static_cast<std::int64_t>(rank));
    at->cores = std::max(at->cores, mine.cores);
    for (const std::string& gpu : mine.gpus)
      if (std::find(at->gpus.begin(), at->gpus.end(), gpu) == at->gpus.end()) at->gpus.push_back(gpu);
  }
  if (hosts.empty()) return hosts;
  const std::map<std::string, std::string> first = hosts.front().variables;
  for (Host& host : hosts) {
    std::map<std::string, std::string> differ;
    for (const auto& [name, value] : host.variables)
      if (const auto there = first.find(name); there == first.end() || there->second != value) differ[name] = value;
    for (const auto& [name, value] : first)
      if (!host.variables.contains(name)) differ[name] = "";
    host.variables = std::move(differ);
  }
  return hosts;
}

std::int64_t ranks_per_node(const std::vector<Host>& hosts) {
  std::size_t most = 0;
  for (const Host& h : hosts) most = std::max(most, h.ranks.size());
  return static_cast<std::int64_t>(most);
}

std::string rank_text(std::int64_t rank, const std::vector<Host>& hosts) {
  for (const Host& h : hosts)
    if (std::find(h.ranks.begin(), h.ranks.end(), rank) != h.ranks.end())
      return fmt::format("rank {} on {}", rank, h.name);
  return fmt::format("rank {}", rank);
}

std::vector<std::string> differences_of(const std::vector<Host>& hosts) {
  const std::vector<std::pair<const char*, std::function<std::string(const Host&)>>> sights = {
      {"the CPU", [](const Host& h) { return h.cpu; }},
      {"the number of cores", [](const Host& h) { return std::to_string(h.cores); }},
      {"the GPUs", gpus_text},
      {"the driver", [](const Host& h) { return h.driver; }},
      {"MPI", [](const Host& h) { return h.mpi; }},
      {"the program's revision", [](const Host& h) { return h.revision; }},
  };
  std::vector<std::string> lines;
  for (const auto& [what, sight] : sights) {
    std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // in the order of hosts
    for (const Host& h : hosts) {
      const std::string seen = sight(h);
      auto at = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == seen; });
      if (at == kinds.end()) at = kinds.insert(kinds.end(), {seen, {}});
      if (std::find(at->second.begin(), at->second.end(), h.name) == at->second.end()) at->second.push_back(h.name);
    }
    if (kinds.size() < 2) continue;
    std::string line;
    for (const auto& [seen, names] : kinds)
      line +=
          fmt::format("{}{} ({})", line.empty() ? "" : " and ", seen.empty() ? "not known" : seen, names_text(names));
    lines.push_back(fmt::format("{} is {}", what, line));
  }
  return lines;
}

}  // namespace mbench
