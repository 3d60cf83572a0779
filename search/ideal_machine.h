// A machine that is never slower than a given one, and simpler to calculate with.
#pragma once
#include <algorithm>
#include <memory>

#include "engine/framework/framework.h"
#include "engine/sim/machine/machine.h"

namespace mbench::search {

// Keeps only the part of an op's or a collective's time that is proportional to its FLOPs and bytes.
inline sim::Machine ideal(sim::Machine m) {
  m.device.kernel_latency = m.node.collective_base = m.network.latency = m.network.tiers.latency = 0;
  m.host.launch = m.host.synchronize = m.host.graph_launch = m.host.graph_node = 0;
  m.gemm.k_overhead = 0;
  double best = 0;
  for (const sim::GemmTile& t : m.gemm.tiles) best = std::max(best, t.efficiency);
  m.gemm.tiles = {{1, 1, best}};
  m.device.multiprocessors = 1;  // one wave a tile: the whole device at a time
  m.device.communication_multiprocessors = 0;
  for (sim::Link& link : m.node.links) link.latency = 0;
  m.node.pcie.latency = 0;
  return m;
}

// The same framework without the cost of its host's calls.
inline std::shared_ptr<const Framework> without_host(const Framework& framework) {
  auto f = std::make_shared<Framework>(framework);
  f->host = {};
  return f;
}

}  // namespace mbench::search
