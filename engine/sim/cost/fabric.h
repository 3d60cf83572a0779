// What the tiers of a network do to the traffic of a job: which of it crosses the spine, and how much of the leaves' uplinks is asked for.
//
// Devices below one leaf reach each other with all of their bandwidth. A leaf's uplinks have the bandwidth of all its devices, divided by
// the oversubscription of the spine, without the share that other jobs take. All groups over the same axes of the mesh communicate at
// once, and all wait for the leaf whose uplinks are asked for most.
//
// - A ring over nodes goes in the order of ranks. Each device sends to its counterpart in the next node, so few edges cross between
//   leaves that are filled in turn, and nearly all where nodes are dealt out. Trees and chains count as that ring.
// - Of an all-to-all, each device sends the nodes below other leaves their part.
// - Of messages between stages, all devices of a stage send to those of the next.
//
// With rails, the devices of a node stand below several leaves, each shared with the devices of the same place in other nodes. Libraries
// first pass what is for another device of a node to the one with the same rail (NCCL's PXN), so rails are crossed only where that is
// switched off.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/axis.h"
#include "engine/plan/mesh.h"
#include "engine/point/node_placement.h"
#include "engine/point/run_spec.h"
#include "engine/sim/machine/machine.h"

namespace mbench::sim {

// What of a group's traffic crosses the spine. A demand is relative to the uplinks' bandwidth: above 1 the wire takes so many times as
// long as below one leaf.
struct Crossing {
  double ring = 0, all_to_all = 0;  // demands
  double edges = 0, partners = 0;   // the most of a ring's edges, and of a device's partners, behind the spine
  bool operator==(const Crossing&) const = default;
};

class Fabric {
 public:
  // `ranks`: only groups within these first ranks count. `same_rail`: libraries pass data within a node so that it keeps to a rail.
  Fabric(const Machine& machine, const Mesh& mesh, const NodePlacement& placement, double background_load, int ranks,
         bool same_rail);
  // Of the group with these members, and of all others like it.
  Crossing of(const std::vector<int>& members, Axes axes) const;
  // Of a message, and of those of the other ranks of the stage.
  Crossing message(int from, int to) const;
  double latency() const { return latency_; }

 private:
  struct Demand;
  int node_of(int rank) const { return rank / devices_; }
  int unit_of(int rank) const { return unit_of_node_[static_cast<std::size_t>(node_of(rank))]; }
  int rail_of(int rank) const { return rank % devices_ % rails_; }
  // Of a node, the leaf on the rail of another rank.
  std::size_t leaf_of(int rank, int on_rail_of) const {
    return static_cast<std::size_t>(unit_of(rank) * rails_ + rail_of(on_rail_of));
  }
  bool crosses(int from, int to) const;
  std::size_t port(int from, int to) const;
  void add(const std::vector<int>& members, Demand& demand) const;
  Crossing crossing_of(const std::vector<int>& members, Axes axes) const;
  Crossing message_of(int from, int to) const;

  Mesh mesh_;
  int devices_, ranks_, rails_;
  bool same_rail_;
  double uplinks_;  // of a leaf, in devices' shares of the network
  double latency_;
  std::vector<int> unit_of_node_;  // a leaf, or with rails the leaves of the same nodes
  std::size_t leaves_ = 0;
  // Groups over the same axes are asked for again and again.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<Axes, std::vector<int>>, Crossing> groups_;
  mutable std::map<std::pair<int, int>, Crossing> messages_;
};

// Null where no spine takes longer than a leaf. The network is flat, or its spine has all bandwidth and no latency of its own, and no
// other job is there. `ranks`: as above, 0 for all.
std::shared_ptr<const Fabric> fabric_of(const Machine& machine, const Mesh& mesh, const RunSpec& run, int ranks = 0);

// Why the job's nodes cannot be placed so; empty if they can.
std::string why_not_placed(const Machine& machine, std::int64_t world, const RunSpec& run);

}  // namespace mbench::sim
