#include "engine/sim/cost/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/sim/cost/links.h"

namespace mbench::sim {
namespace {

std::int64_t nodes_of(const Machine& machine, std::int64_t world) {
  return (world + machine.node.devices - 1) / machine.node.devices;
}

// [node]
std::vector<int> units_of(const Machine& machine, const NodePlacement& placement, std::int64_t world) {
  const std::int64_t nodes = nodes_of(machine, world), room = std::max(1, machine.network.tiers.nodes);
  std::vector<int> units;
  for (std::size_t leaf = 0; leaf < placement.leaves.size(); ++leaf)
    for (std::int64_t i = 0; i < placement.leaves[leaf] && std::ssize(units) < nodes; ++i)
      units.push_back(static_cast<int>(leaf));
  const bool dealt = placement.order == NodePlacement::Order::cyclic;
  const std::int64_t leaves = (nodes + room - 1) / room;
  for (std::int64_t node = std::ssize(units); node < nodes; ++node)
    units.push_back(static_cast<int>(dealt ? node % leaves : node / room));
  return units;
}

bool keeps_to_rails(const RunSpec& run) {
  const auto off = run.env.find("NCCL_PXN_DISABLE");
  return peer_to_peer(run.env) && (off == run.env.end() || off->second == "0");
}

}  // namespace

// Of all groups so far, by leaf: how many devices' full bandwidth goes up.
struct Fabric::Demand {
  std::vector<double> ring, all_to_all;
  Crossing most;
};

Fabric::Fabric(const Machine& machine, const Mesh& mesh, const NodePlacement& placement, double background_load,
               int ranks, bool same_rail)
    : mesh_(mesh),
      devices_(machine.node.devices),
      ranks_(ranks),
      rails_(machine.network.tiers.rails),
      same_rail_(same_rail),
      uplinks_(static_cast<double>(std::max(1, machine.network.tiers.nodes)) *
               std::max(machine.node.devices, machine.network.tiers.devices) / rails_ * (1 - background_load) /
               machine.network.tiers.oversubscription),
      latency_(machine.network.tiers.latency),
      unit_of_node_(units_of(machine, placement, mesh.world())) {
  leaves_ = static_cast<std::size_t>((*std::max_element(unit_of_node_.begin(), unit_of_node_.end()) + 1) * rails_);
}

bool Fabric::crosses(int from, int to) const {
  if (unit_of(from) != unit_of(to)) return true;
  return rails_ > 1 && !same_rail_ && rail_of(from) != rail_of(to);
}

// The leaf through which a device's data leave its node.
std::size_t Fabric::port(int from, int to) const {
  return leaf_of(from, same_rail_ ? to : from);
}

void Fabric::add(const std::vector<int>& members, Demand& demand) const {
  std::vector<std::pair<std::size_t, std::size_t>> nodes;  // the members of each: from, to
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == 0 || node_of(members[i]) != node_of(members[i - 1])) nodes.emplace_back(i, i);
    ++nodes.back().second;
  }
  if (nodes.size() < 2) return;
  const auto others = static_cast<double>(nodes.size() - 1);
  std::map<int, double> nodes_in;         // by unit
  std::map<std::size_t, double> rail_in;  // members by leaf, where rails are crossed
  for (const auto& [from, to] : nodes) ++nodes_in[unit_of(members[from])];
  const bool rails = rails_ > 1 && !same_rail_;
  if (rails)
    for (const int m : members) ++rail_in[leaf_of(m, m)];
  std::vector<double> edges;  // of each ring
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto [from, to] = nodes[n];
    const auto [next, next_end] = nodes[(n + 1) % nodes.size()];
    const std::size_t mine = to - from, theirs = next_end - next;
    edges.resize(std::max(edges.size(), mine));
    for (std::size_t i = 0; i < mine; ++i) {
      const int a = members[from + i], b = members[next + i * theirs / mine];
      if (crosses(a, b)) ++demand.ring[port(a, b)], ++edges[i];
      const double below = rails ? (rail_in[leaf_of(a, a)] - 1) / static_cast<double>(mine) : nodes_in[unit_of(a)] - 1;
      const double beyond = std::max(0.0, others - below);
      demand.all_to_all[leaf_of(a, a)] += beyond / others;
      demand.most.partners = std::max(demand.most.partners, std::ceil(beyond));
    }
  }
  demand.most.edges = std::max(demand.most.edges, *std::max_element(edges.begin(), edges.end()));
}

// All groups over the same axes; of one that is not over all ranks of its axes, all that begin at a rank of the same stage.
Crossing Fabric::crossing_of(const std::vector<int>& members, Axes axes) const {
  Demand demand{std::vector<double>(leaves_), std::vector<double>(leaves_), {}};
  const auto within = [&](const std::vector<int>& group) {
    return *std::max_element(group.begin(), group.end()) < ranks_;
  };
  if (!axes.empty() && mesh_.members(members.front(), axes) == members) {
    std::vector<bool> seen(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      if (seen[static_cast<std::size_t>(rank)]) continue;
      const std::vector<int> group = mesh_.members(rank, axes);
      if (!within(group)) continue;
      for (const int m : group) seen[static_cast<std::size_t>(m)] = true;
      add(group, demand);
    }
  } else {
    const int stage = std::max(1, mesh_.world() / mesh_.size(Axis::pp)), first = members.front() / stage * stage;
    const bool everyone = std::ssize(members) == mesh_.world();
    for (int r = everyone ? members.front() : first; r < (everyone ? members.front() + 1 : first + stage); ++r) {
      std::vector<int> group = members;
      for (int& m : group) m += r - members.front();
      if (group.front() >= 0 && within(group)) add(group, demand);
    }
  }
  Crossing all = demand.most;
  all.ring = *std::max_element(demand.ring.begin(), demand.ring.end()) / uplinks_;
  all.all_to_all = *std::max_element(demand.all_to_all.begin(), demand.all_to_all.end()) / uplinks_;
  return all;
}

Crossing Fabric::of(const std::vector<int>& members, Axes axes) const {
  // Where every rank of the axes is a member, the group of any rank stands for all.
  const bool regular = !axes.empty() && mesh_.members(members.front(), axes) == members;
  const std::pair key(axes, regular ? std::vector<int>() : members);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = groups_.find(key); found != groups_.end()) return found->second;
  }
  const Crossing made = crossing_of(members, axes);
  const std::lock_guard lock(mutex_);
  return groups_.emplace(key, made).first->second;
}

Crossing Fabric::message_of(int from, int to) const {
  const int stage = std::max(1, mesh_.world() / mesh_.size(Axis::pp)), world = mesh_.world();
  std::vector<double> up(leaves_), down(leaves_);
  const auto send = [&](int a, int b) {
    if (node_of(a) == node_of(b) || !crosses(a, b)) return;
    ++up[port(a, b)];
    ++down[leaf_of(b, b)];
  };
  // A message back from a stage goes where one to it came from. From the last stage to the first it meets none: those between neighbours
  // go up where it comes down.
  const int first = std::min(from, to) / stage * stage, apart = std::abs(to - from);
  const bool neighbours = apart == stage;
  for (int rank = neighbours ? 0 : first; rank + apart < world && (neighbours || rank < first + stage); ++rank)
    send(rank, rank + apart);
  Crossing most;
  for (int rank = first; rank < first + stage && rank + apart < world; ++rank) {
    const int a = rank, b = rank + apart;
    if (node_of(a) == node_of(b) || !crosses(a, b)) continue;
    most.edges = 1;
    most.ring = std::max({most.ring, up[port(a, b)] / uplinks_, down[leaf_of(b, b)] / uplinks_});
  }
  return most;
}

Crossing Fabric::message(int from, int to) const {
  const std::pair key(from, to);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = messages_.find(key); found != messages_.end()) return found->second;
  }
  const Crossing made = message_of(from, to);
  const std::lock_guard lock(mutex_);
  return messages_.emplace(key, made).first->second;
}

std::shared_ptr<const Fabric> fabric_of(const Machine& machine, const Mesh& mesh, const RunSpec& run, int ranks) {
  const MachineTiers& tiers = machine.network.tiers;
  const bool slower = tiers.nodes > 0 && (tiers.oversubscription > 1 || tiers.latency > 0);
  if (!slower && run.background_load == 0) return nullptr;
  const int world = mesh.world();
  return std::make_shared<const Fabric>(machine, mesh, run.placement, run.background_load,
                                        ranks == 0 ? world : std::min(ranks, world), keeps_to_rails(run));
}

std::string why_not_placed(const Machine& machine, std::int64_t world, const RunSpec& run) {
  if (run.placement == NodePlacement()) return "";
  const std::int64_t nodes = nodes_of(machine, world), room = machine.network.tiers.nodes;
  if (room == 0)
    return fmt::format("placement {} on {}, whose file has no network.leaf, need one or placement block",
                       name_of(run.placement), machine.name);
  for (const std::int64_t leaf : run.placement.leaves)
    if (leaf > room)
      return fmt::format("placement {} with {} nodes below a leaf of {}, got {}, need {} at most",
                         name_of(run.placement), leaf, machine.name, leaf, room);
  const std::int64_t placed = std::accumulate(run.placement.leaves.begin(), run.placement.leaves.end(), std::int64_t{});
  if (!run.placement.leaves.empty() && placed < nodes)
    return fmt::format("placement {} of {} nodes, and the job has {}, need a place for each", name_of(run.placement),
                       placed, nodes);
  return "";
}

}  // namespace mbench::sim
