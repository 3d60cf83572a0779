// How long communication takes on a machine: alpha-beta over the links it crosses. Within a node a ring over
// the link of that many devices (a tree where it is faster, for all-reduce); across nodes the hierarchy that
// communication libraries use: within each node, then between nodes over every device's share of the network,
// then within again, the parts pipelined, so that the slowest part's bandwidth counts and every part's
// latency.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/device/tensor.h"
#include "engine/sim/machine.h"

namespace mbench {

// Of one row along dim 0, which may have none.
inline double row_bytes(const Tensor& x) {
  double row = static_cast<double>(size_of(x.dtype()));
  for (int dim = 1; dim < x.shape().rank(); ++dim) row *= static_cast<double>(x.shape()[dim]);
  return row;
}

// Of the rows that lie beside each other in tensors that travel together.
inline double row_bytes_of(const std::vector<Group::Parcel>& parcels) {
  double row = 0;
  for (const Group::Parcel& p : parcels) row += row_bytes(p.in);
  return row;
}

// Whether devices of a node reach each other without passing through the host, in a job with that environment: peer-to-peer access
// can be switched off, as NCCL's users do.
bool peer_to_peer(const std::map<std::string, std::string>& environment);

class Links {
 public:
  // `direct`: as peer_to_peer() says.
  Links(const Machine& machine, bool direct) : machine_(machine), direct_(direct) {}

  // Where the members of a group stand.
  struct Reach {
    int per_node = 1, nodes = 1;
    int size() const { return per_node * nodes; }
  };
  Reach reach(const std::vector<int>& ranks) const;

  // `bytes`: of the whole tensor, before it is scattered or after it is gathered. Messages and collectives
  // that are under way at once do not slow each other.
  double all_reduce(double bytes, Reach r) const;
  double all_gather(double bytes, Reach r) const;  // reduce-scatter costs the same
  // Every device sends `bytes` altogether, an equal part to each of the group, itself included. Pairwise
  // exchange (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
  // MPICH", 2005): k - 1 steps and (k - 1) / k of the bytes over the link within a node, the factor of
  // nccl-tests' PERFORMANCE.md. Across n nodes what goes to another node passes within the own one to the
  // device that shares the target's network, as NCCL's PXN does it since 2.12 (NVIDIA's blog on all2all in
  // 2.12): the same over the link, and beside it n - 1 steps and (n - 1) / n of the bytes over the device's
  // share of the network. A link's bandwidth is that of a ring: where the devices of a node are wired to some
  // of the others only, without a switch, this is a lower bound of the time.
  double all_to_all(double bytes, Reach r) const;
  // The same with parts of so many rows to and from each of the group: of unequal parts the largest counts for all. A rank
  // here stands for its peers, which send alike: whoever gets this rank's largest part gets one as large from every other,
  // and all wait for that one.
  // `call`: all_to_all or start_all_to_all.
  double all_to_all(sim::Call call, double row_bytes, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, Reach r) const;
  double all_to_all(double row_bytes, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, Reach r) const {
    return all_to_all(sim::Call::all_to_all, row_bytes, send_rows, receive_rows, r);
  }
  // Group::forwarded_all_to_all of rows of so many bytes. Within a node as all_to_all, at what kernels that forward reach there. Beside it
  // a row crosses to each other node once: of `node_rows`, one node of which is the own, (n - 1) / n. The way back, on which a node sums
  // first, is as long.
  double forwarded(double row_bytes, std::span<const std::int64_t> send_rows,
                   std::span<const std::int64_t> receive_rows, std::int64_t node_rows, Reach r) const;
  // Any of them, its bytes as measured.h counts them; `dtype`: of what is added up. What was measured on the machine stands in place
  // of the formulas, for groups within a node. In whole ticks (ticks.h).
  double seconds(sim::Call call, double bytes, DType dtype, Reach r) const;
  double broadcast(double bytes, Reach r) const;  // a reduction to one rank is one the other way
  // Every rank sends so many bytes to its neighbour in the ring of them.
  double shift(double bytes, Reach reach) const;
  double message(double bytes, int from, int to) const;

 private:
  double estimate(sim::Call call, double bytes, DType dtype, Reach r) const;
  Link inside(int ranks) const;
  double neighbours(double bytes, bool across_nodes) const;
  int node_of(int rank) const { return rank / machine_.node.devices; }
  const Machine& machine_;
  bool direct_;
};

}  // namespace mbench
