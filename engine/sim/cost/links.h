// How long communication takes on a machine: alpha-beta over the links it crosses. Within a node it is a ring over the link of that
// many devices, or for all-reduce a tree where that is faster. Across nodes it is the hierarchy of communication libraries: within each
// node, then between nodes over every device's share of the network, then within again. These parts are pipelined, so the slowest
// part's bandwidth counts, and every part's latency. What crosses the spine of a network with tiers takes longer (fabric.h).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/collectives.h"
#include "engine/device/tensor.h"
#include "engine/sim/cost/fabric.h"
#include "engine/sim/machine/machine.h"

namespace mbench::sim {

// Bytes of one row along dim 0, which may have none.
inline double row_bytes(const Tensor& x) {
  double row = static_cast<double>(size_of(x.dtype()));
  for (int dim = 1; dim < x.shape().rank(); ++dim) row *= static_cast<double>(x.shape()[dim]);
  return row;
}

// The same over tensors that travel together.
inline double row_bytes_of(const std::vector<comm::Parcel>& parcels) {
  double row = 0;
  for (const comm::Parcel& p : parcels) row += row_bytes(p.in);
  return row;
}

// Whether devices of a node reach each other without passing through the host, in a job with that environment. Users of NCCL can switch
// off peer-to-peer access there.
bool peer_to_peer(const std::map<std::string, std::string>& environment);

class Links {
 public:
  // `direct`: as peer_to_peer() says. Null `fabric`: nodes reach each other alike.
  Links(const Machine& machine, bool direct, std::shared_ptr<const Fabric> fabric = nullptr)
      : machine_(machine), direct_(direct), fabric_(std::move(fabric)) {}
  // Of a job that runs so. `ranks`: as of fabric_of().
  Links(const Machine& machine, const RunSpec& run, const Mesh& mesh, int ranks = 0)
      : Links(machine, peer_to_peer(run.env), fabric_of(machine, mesh, run, ranks)) {}

  // How the members of a group are spread over nodes, and what of their traffic crosses the spine.
  struct Reach {
    int per_node = 1, nodes = 1;
    Crossing crossing = {};
    int size() const { return per_node * nodes; }
  };
  // `axes`: over which the group is; empty where it is over no axes.
  Reach reach(const std::vector<int>& ranks, Axes axes = {}) const;

  // `bytes`: of the whole tensor, before it is scattered or after it is gathered. Messages and collectives that run at once do not slow
  // each other.
  double all_reduce(double bytes, Reach r) const;
  double all_gather(double bytes, Reach r) const;  // reduce-scatter costs the same
  // Every device sends `bytes` in total, an equal part to each of the group, itself included. The model is pairwise exchange (Thakur,
  // Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005). Within a node of k ranks it takes k
  // - 1 steps and sends (k - 1) / k of the bytes over the link. That is the factor of nccl-tests' PERFORMANCE.md.
  //
  // Across n nodes, what goes to another node first passes within its own node to the device that shares the target's network. NCCL's
  // PXN does so since 2.12 (NVIDIA's blog on all2all in 2.12). The link carries the same as above. Overlapped with it, n - 1 steps send
  // (n - 1) / n of the bytes over the device's share of the network.
  //
  // A link's bandwidth is measured on a ring. Where a node without a switch wires its devices to only some of the others, this time is
  // a lower bound.
  double all_to_all(double bytes, Reach r) const;
  // The same with parts of so many rows to and from each of the group. Of unequal parts the largest counts for all. The reason is that
  // a rank here stands for its peers, which send alike. Whoever gets this rank's largest part gets one as large from every other, and
  // all wait for it. `call`: all_to_all or start_all_to_all.
  double all_to_all(Call call, double row_bytes, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, Reach r) const;
  double all_to_all(double row_bytes, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, Reach r) const {
    return all_to_all(Call::all_to_all, row_bytes, send_rows, receive_rows, r);
  }
  // A comm::ForwardedAllToAll of rows of so many bytes. Within a node it is an all_to_all at the bandwidth of forwarding kernels.
  // Overlapped with it, each row crosses once to each other node: (n - 1) / n of `node_rows`, which count the own node too. The way
  // back takes as long; there a node sums first.
  double forwarded(double row_bytes, std::span<const std::int64_t> send_rows,
                   std::span<const std::int64_t> receive_rows, std::int64_t node_rows, Reach r) const;
  // Any of them, its bytes as measured.h counts them. `dtype`: of the elements that are added up. For groups within a node, times
  // measured on the machine replace the formulas. In whole ticks (ticks.h).
  double seconds(Call call, double bytes, DType dtype, Reach r) const;
  // A collective among `ranks`, blocking or only started; 0 for a message, whose time depends on its two ranks.
  double seconds(const comm::Collective& c, bool started, int ranks, Reach r) const;
  double broadcast(double bytes, Reach r) const;  // a reduction to one rank takes the same
  // Every rank sends so many bytes to its neighbour in their ring.
  double shift(double bytes, Reach reach) const;
  // Whether one that has started slows the kernels that run meanwhile. Within one call of the framework's, copy engines move a shift
  // (Userbuffers' use_ce).
  static bool slows_kernels(const comm::Collective& c, bool in_one_call) {
    return !in_one_call || !std::holds_alternative<comm::Shift>(c);
  }
  double message(double bytes, int from, int to) const;

 private:
  double estimate(Call call, double bytes, DType dtype, Reach r) const;
  const Link& inside(int ranks) const;
  double neighbours(double bytes, bool across_nodes, const Crossing& crossing) const;
  double spine_latency() const { return fabric_ ? fabric_->latency() : 0; }
  int node_of(int rank) const { return rank / machine_.node.devices; }
  const Machine& machine_;
  bool direct_;
  std::shared_ptr<const Fabric> fabric_;
};

}  // namespace mbench::sim
