// How long communication takes on a machine: alpha-beta over the links it crosses. Within a node a ring over
// the link of that many devices (a tree where it is faster, for all-reduce); across nodes the hierarchy that
// communication libraries use: within each node, then between nodes over every device's share of the network,
// then within again, the parts pipelined, so that the slowest part's bandwidth counts and every part's
// latency.
#pragma once
#include <vector>

#include "engine/sim/machine.h"

namespace mbench {

class Links {
 public:
  // `direct`: whether devices of a node reach each other without passing through the host.
  Links(const Machine& machine, bool direct) : machine_(machine), direct_(direct) {}

  // Where the members of a group stand.
  struct Reach {
    int per_node = 1, nodes = 1;
    int size() const { return per_node * nodes; }
  };
  Reach reach(const std::vector<int>& ranks) const;

  // `bytes`: of the whole tensor, before it is scattered or after it is gathered.
  double all_reduce(double bytes, Reach r) const;
  double all_gather(double bytes, Reach r) const;  // reduce-scatter costs the same
  double broadcast(double bytes, Reach r) const;
  double message(double bytes, int from, int to) const;

 private:
  Link inside(int ranks) const;
  int node_of(int rank) const { return rank / machine_.devices_per_node; }
  const Machine& machine_;
  bool direct_;
};

}  // namespace mbench
