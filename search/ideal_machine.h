// A machine on which nothing takes longer than on a given one, and which is simpler to reckon with.
#pragma once
#include <algorithm>

#include "engine/sim/machine.h"

namespace mbench::search {

// Of the time of an op or a collective nothing is left that does not grow evenly with its FLOPs and bytes.
inline Machine ideal(Machine m) {
  m.kernel_latency = m.collective_base = m.network_latency = 0;
  m.launch = m.synchronize = m.graph_launch = m.graph_node = 0;
  m.k_overhead = 0;
  double best = 0;
  for (const GemmTile& t : m.tiles) best = std::max(best, t.efficiency);
  m.tiles = {{1, 1, best}};
  m.multiprocessors = 1;  // one wave a tile: the whole device at a time
  m.communication_multiprocessors = 0;
  for (Link& link : m.links) link.latency = 0;
  m.host_path.latency = 0;
  return m;
}

inline Framework ideal(Framework f) {
  f.host = {};
  return f;
}

}  // namespace mbench::search
