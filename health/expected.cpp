#include "health/expected.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/sim/cost/links.h"
#include "health/collectives.h"

namespace mbench::health {
namespace {

std::optional<double> product(const sim::Machine& m, const std::string& dtype) {
  for (const Precision p : {Precision::f32, Precision::bf16, Precision::fp16}) {
    const std::string name = p == Precision::fp16 ? "f16" : std::string(name_of(p));
    const auto i = static_cast<std::size_t>(p);
    if (name == dtype && m.device.peak_flops[i] > 0) return m.device.peak_flops[i] * m.gemm.sustained[i] * 1e-12;
  }
  return std::nullopt;
}

std::optional<double> seconds_of(const std::string& what, double bytes, const sim::Links& links,
                                 sim::Links::Reach reach) {
  if (what == "all_reduce") return links.all_reduce(bytes, reach);
  if (what == "all_gather" || what == "reduce_scatter") return links.all_gather(bytes, reach);
  if (what == "all_to_all") return links.all_to_all(bytes, reach);
  if (what == "send") return links.shift(bytes, reach);
  return std::nullopt;
}

bool is_estimate(const nlohmann::ordered_json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_object() && at->value("source", "").starts_with("estimate");
}

bool is_estimated(const EstimatedLinks& links, const std::string& what, int ranks, int nodes) {
  if (nodes > 1 && links.network) return true;
  if (what == "send") return links.p2p;
  for (const auto& [most, estimated] : links.groups)
    if (ranks <= most) return estimated;
  return !links.groups.empty() && links.groups.back().second;
}

}  // namespace

EstimatedLinks estimated_links(const nlohmann::ordered_json& machine) {
  EstimatedLinks links;
  const nlohmann::ordered_json node = machine.value("node", nlohmann::ordered_json::object());
  for (const auto& link : node.value("links", nlohmann::ordered_json::array()))
    links.groups.emplace_back(link.value("ranks", 0), is_estimate(link, "bus_gbps"));
  links.p2p = is_estimate(node, "p2p_gbps");
  links.network = is_estimate(machine.value("network", nlohmann::ordered_json::object()), "gbps_per_device");
  return links;
}

void expect(Health& health, const std::string& machine, const std::string& where) {
  const auto [json, file] = sim::load_machine(machine, where);
  expect(health, sim::machine_from_json(json, file), estimated_links(json));
}

void expect(Health& health, const sim::Machine& machine, const EstimatedLinks& estimated) {
  health.machine = machine.name;
  const sim::Links links(machine, true);
  const double sharers =
      machine.immediate ? static_cast<double>(std::max<std::int64_t>(1, ranks_per_node(health.hosts))) : 1;
  for (Figure& f : health.figures)
    for (RankFigure& m : f.of) {
      if (f.what.ends_with(" GEMM")) {
        if (const auto rate = product(machine, f.what.substr(0, f.what.find(' ')))) m.expected = *rate / sharers;
      } else if (f.what == "memory") {
        m.expected = machine.device.memory_bandwidth * machine.device.memory_efficiency * 1e-9 / sharers;
      } else if (f.what == "launch") {
        m.expected = std::max(machine.host.launch, machine.device.kernel_latency) * 1e6;
      } else {
        const int nodes = std::max(1, hosts_of(health, m.ranks));
        const int ranks = static_cast<int>(m.ranks.size()), of_node = (ranks + nodes - 1) / nodes;
        const auto seconds = seconds_of(f.what, static_cast<double>(f.bytes), links, {of_node, nodes});
        m.estimated = is_estimated(estimated, f.what, of_node, nodes);
        for (const Collective& c : collectives())
          if (seconds && *seconds > 0 && c.name == f.what)
            m.expected = c.factor(ranks) * static_cast<double>(f.bytes) / *seconds * 1e-9;
      }
    }
}

}  // namespace mbench::health
