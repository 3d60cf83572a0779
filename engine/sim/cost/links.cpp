#include "engine/sim/cost/links.h"

#include <algorithm>
#include <cmath>

#include "engine/sim/play/ticks.h"

namespace mbench::sim {
namespace {

// Time as latency and as time on the wire, which add up or overlap differently.
struct Part {
  double latency = 0, wire = 0;
};

Part ring_gather(double bytes, int n, double bandwidth, double latency) {
  const double steps = n - 1;
  return {steps * latency, bytes * steps / n / bandwidth};
}

// Every one of n sends an equal part of its bytes to each other one: as many steps and bytes as a ring takes.
Part pairwise(double bytes, int n, double bandwidth, double latency) {
  return ring_gather(bytes, n, bandwidth, latency);
}

// The network between nodes as a group finds it.
struct Between {
  double bandwidth = 0, latency = 0;
  double edges = 0, more = 0;  // edges of a ring that cross the spine, and what each adds to the latency
};

// A piece passes all edges of the ring but one.
Part ring_gather(double bytes, int n, const Between& b) {
  Part part = ring_gather(bytes, n, b.bandwidth, b.latency);
  part.latency += std::min<double>(b.edges, n - 1) * b.more;
  return part;
}

// All-reduce by a ring (two passes) or by a tree (up and down, in pieces), whichever is faster.
Part reduce(double bytes, int n, const Between& b) {
  const Part once = ring_gather(bytes, n, b);
  const Part ring{2 * once.latency, 2 * once.wire};
  const double levels = std::ceil(std::log2(n));
  const Part tree{2 * levels * b.latency + 2 * std::min(b.edges, levels) * b.more, 2 * bytes / b.bandwidth};
  return ring.latency + ring.wire <= tree.latency + tree.wire ? ring : tree;
}

// The rate of what crosses the uplinks where more is asked of them than they have.
double slowed(double bandwidth, double demand) {
  return bandwidth / std::max(1.0, demand);
}

// A figure that a machine need not have, and what stands for it.
double or_else(double figure, double otherwise) {
  return figure > 0 ? figure : otherwise;
}

double largest_part(std::span<const std::int64_t> send_rows, std::span<const std::int64_t> receive_rows) {
  std::int64_t largest = 0;
  for (const auto& rows : {send_rows, receive_rows})
    largest = std::max(largest, *std::max_element(rows.begin(), rows.end()));
  return static_cast<double>(largest);
}

Between ring_of(const MachineNetwork& network, const Crossing& crossing, double spine_latency) {
  return {slowed(network.bandwidth, crossing.ring), network.latency, crossing.edges, spine_latency};
}

// An all-to-all between nodes at that bandwidth. What crosses the spine has the network's at most.
Part exchange(double bytes, const Links::Reach& r, double bandwidth, const MachineNetwork& network,
              double spine_latency) {
  const Part all = pairwise(bytes, r.nodes, bandwidth, network.latency);
  const Part crossing = pairwise(bytes * r.crossing.all_to_all, r.nodes, network.bandwidth, 0);
  return {all.latency + r.crossing.partners * spine_latency, std::max(all.wire, crossing.wire)};
}

double total(double base, const std::vector<Part>& parts) {
  double latency = base, wire = 0;
  for (const Part& p : parts) latency += p.latency, wire = std::max(wire, p.wire);
  return latency + wire;
}

}  // namespace

bool peer_to_peer(const std::map<std::string, std::string>& environment) {
  const auto off = environment.find("NCCL_P2P_DISABLE");
  return off == environment.end() || off->second == "0";
}

const Link& Links::inside(int ranks) const {
  return direct_ ? machine_.link(ranks) : machine_.node.pcie;
}

Links::Reach Links::reach(const std::vector<int>& ranks, Axes axes) const {
  std::vector<int> on_node(static_cast<std::size_t>(node_of(*std::max_element(ranks.begin(), ranks.end()))) + 1);
  Reach reach{1, 0};
  for (const int r : ranks) {
    int& count = on_node[static_cast<std::size_t>(node_of(r))];
    if (count++ == 0) ++reach.nodes;
    reach.per_node = std::max(reach.per_node, count);
  }
  if (fabric_ && reach.nodes > 1) reach.crossing = fabric_->of(ranks, axes);
  return reach;
}

double Links::all_reduce(double bytes, Reach r) const {
  std::vector<Part> parts;
  const Link& link = inside(r.per_node);
  if (r.nodes == 1) {
    const Part ring = reduce(bytes, r.per_node, Between{link.bandwidth, link.latency});
    // In the switches: up and down once, which nccl-tests counts as a ring's bytes all the same.
    const double rate = or_else(link.all_reduce_bandwidth, link.bandwidth);
    const Part switched{2 * link.latency, 2 * bytes * (r.per_node - 1) / r.per_node / rate};
    const auto all = [](const Part& p) { return p.latency + p.wire; };
    const bool in_switches = r.per_node > 2 && rate > link.bandwidth && all(switched) < all(ring);
    parts.push_back(in_switches ? switched : ring);
  } else {
    const Part within = ring_gather(bytes, r.per_node, link.bandwidth, link.latency);
    parts.push_back({2 * within.latency, 2 * within.wire});
    parts.push_back(reduce(bytes / r.per_node, r.nodes, ring_of(machine_.network, r.crossing, spine_latency())));
  }
  return total(machine_.node.collective_base, parts);
}

double Links::all_gather(double bytes, Reach r) const {
  const Link& link = inside(r.per_node);
  std::vector<Part> parts{ring_gather(bytes, r.per_node, link.bandwidth, link.latency)};
  if (r.nodes > 1)
    parts.push_back(ring_gather(bytes / r.per_node, r.nodes, ring_of(machine_.network, r.crossing, spine_latency())));
  return total(machine_.node.collective_base, parts);
}

double Links::all_to_all(double bytes, Reach r) const {
  const Link& link = inside(r.per_node);
  std::vector<Part> parts{
      pairwise(bytes, r.per_node, or_else(link.all_to_all_bandwidth, link.bandwidth), link.latency)};
  if (r.nodes > 1)
    parts.push_back(exchange(bytes, r, or_else(machine_.network.all_to_all, machine_.network.bandwidth),
                             machine_.network, spine_latency()));
  return total(machine_.node.collective_base, parts);
}

double Links::seconds(Call call, double bytes, DType dtype, Reach r) const {
  return whole_ticks(estimate(call, bytes, dtype, r));
}

double Links::seconds(const comm::Collective& c, bool started, int ranks, Reach r) const {
  const auto of = [&](Call call, const Tensor& x) {
    return seconds(call, static_cast<double>(x.bytes()), x.dtype(), r);
  };
  const auto timed = [&]<class C>(const C& each) -> double {
    if constexpr (std::is_same_v<C, comm::AllReduce>)
      return of(started ? Call::start_all_reduce : Call::all_reduce, each.x);
    else if constexpr (std::is_same_v<C, comm::AllGather>)
      return of(Call::all_gather, each.out);
    else if constexpr (std::is_same_v<C, comm::ReduceScatter>)
      return of(Call::reduce_scatter, each.in);
    else if constexpr (std::is_same_v<C, comm::AllToAll>) {
      const comm::Rows rows = each.rows(ranks);
      return all_to_all(started ? Call::start_all_to_all : Call::all_to_all, row_bytes(each.in), rows.send,
                        rows.receive, r);
    } else if constexpr (std::is_same_v<C, comm::ForwardedAllToAll>)
      return forwarded(row_bytes_of(each.parcels), each.send_rows, each.receive_rows, each.node_rows, r);
    else if constexpr (std::is_same_v<C, comm::Shift>)
      return of(Call::shift, each.in);
    else if constexpr (std::is_same_v<C, comm::Broadcast>)
      return of(Call::broadcast, each.x);
    else if constexpr (std::is_same_v<C, comm::Reduce>)
      return of(Call::reduce, each.x);
    else
      return 0;
  };
  return std::visit(timed, c);
}

double Links::estimate(Call call, double bytes, DType dtype, Reach r) const {
  if (const auto* measured = machine_.measured.get(); measured && r.nodes == 1 && direct_)
    if (const auto seconds = measured->seconds(call, bytes, dtype, r.per_node)) return *seconds;
  switch (call) {
    case Call::all_reduce:
    case Call::start_all_reduce:
      return all_reduce(bytes, r);
    case Call::all_gather:
    case Call::reduce_scatter:
      return all_gather(bytes, r);
    case Call::all_to_all:
    case Call::start_all_to_all:
      return all_to_all(bytes, r);
    case Call::broadcast:
    case Call::reduce:
      return broadcast(bytes, r);
    case Call::shift:
    case Call::message:
      return neighbours(bytes, r.nodes > 1, r.crossing);
  }
  return 0;
}

double Links::all_to_all(Call call, double row_bytes, std::span<const std::int64_t> send_rows,
                         std::span<const std::int64_t> receive_rows, Reach r) const {
  return seconds(call, row_bytes * largest_part(send_rows, receive_rows) * static_cast<double>(send_rows.size()),
                 DType::f32, r);
}

double Links::forwarded(double row_bytes, std::span<const std::int64_t> send_rows,
                        std::span<const std::int64_t> receive_rows, std::int64_t node_rows, Reach r) const {
  // What was measured within a node is an all-to-all's: it is one there.
  if (machine_.measured && r.nodes == 1) return all_to_all(Call::all_to_all, row_bytes, send_rows, receive_rows, r);
  const Link& link = inside(r.per_node);
  const double all_to_all = or_else(link.all_to_all_bandwidth, link.bandwidth);
  std::vector<Part> parts{
      pairwise(row_bytes * largest_part(send_rows, receive_rows) * static_cast<double>(send_rows.size()), r.per_node,
               or_else(link.forwarding_bandwidth, all_to_all), link.latency)};
  if (r.nodes > 1) {
    const double network = or_else(machine_.network.all_to_all, machine_.network.bandwidth);
    parts.push_back(exchange(row_bytes * static_cast<double>(node_rows), r,
                             or_else(machine_.network.forwarding, network), machine_.network, spine_latency()));
  }
  return whole_ticks(total(machine_.node.collective_base, parts));
}

// A chain through all ranks, as NCCL has no other way for it: what is on the wire flows in pieces, by as many networks' ports as
// there are ranks in a node. A piece is a step of a channel's buffer, and there are two channels for each adapter (NCCL: NCCL_BUFFSIZE
// of 4 MiB, NCCL_STEPS 8, BROADCAST_CHUNKSTEPS 1; ncclTopoPostset() doubles the rings that were found). It leaves a node when all of it
// is there, so that the last node is so many pieces behind the first: on a thousand devices that is most of a broadcast.
double Links::broadcast(double bytes, Reach r) const {
  constexpr double kPiece = 512 * 1024, kChannelsOfAdapter = 2;
  const Link& link = inside(r.per_node);
  std::vector<Part> parts;
  if (r.per_node > 1) parts.push_back({r.nodes * (r.per_node - 1) * link.latency, bytes / link.bandwidth});
  if (r.nodes > 1) {
    const double devices = machine_.node.devices,
                 bandwidth = r.per_node * slowed(machine_.network.bandwidth, r.crossing.ring);
    const double channels = std::max(1.0, kChannelsOfAdapter * machine_.network.adapters * r.per_node / devices);
    const double piece = std::min(kPiece, bytes / channels) * channels / bandwidth;
    const double spine = std::min<double>(r.crossing.edges, r.nodes - 1) * spine_latency();
    parts.push_back({(r.nodes - 1) * (machine_.network.latency + piece) + spine, bytes / bandwidth});
  }
  return total(machine_.node.collective_base, parts);
}

double Links::shift(double bytes, Reach r) const {
  return whole_ticks(neighbours(bytes, r.nodes > 1, r.crossing));
}

double Links::message(double bytes, int from, int to) const {
  const bool apart = node_of(from) != node_of(to);
  Reach r{apart ? 1 : 2, apart ? 2 : 1};
  if (fabric_ && apart) r.crossing = fabric_->message(from, to);
  return seconds(Call::message, bytes, DType::f32, r);
}

double Links::neighbours(double bytes, bool across, const Crossing& crossing) const {
  if (across)
    return machine_.node.collective_base + machine_.network.latency + (crossing.edges > 0 ? spine_latency() : 0) +
           bytes / slowed(machine_.network.bandwidth, crossing.ring);
  const Link& link = inside(2);
  return machine_.node.collective_base + link.latency +
         bytes / (direct_ ? machine_.node.p2p_bandwidth : link.bandwidth);
}

}  // namespace mbench::sim
