// A machine with some figures other than in its file, for questions such as: what if the network were twice as fast? A figure is named
// by its path in the file: "network.gbps_per_device", "node.links[0].bus_gbps", "gemm.tiles[2].efficiency".
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/sim/machine/machine.h"

namespace mbench::sim {

// As find_machine. Throws bad_input at `where` for a path that is no figure of the file, with the nearest one. Throws it too for an
// impossible value, as in the file itself.
Machine find_machine(const std::string& name_or_path, const std::map<std::string, double>& figures,
                     const std::string& where);

// The machine as a job has it that runs so many ranks on each of its nodes: of an NVLink domain of 72 devices, the scheduler may give it
// 64. What a node shares, as adapters, is theirs by their number. Throws bad_input at `where` for more ranks than a node has devices.
Machine cut_to(Machine machine, std::int64_t ranks_per_node, const std::string& where);

struct MachineFigure {
  std::string path;
  double value = 0;
};
// Every figure of the file, in its order.
std::vector<MachineFigure> figures_of(const std::string& name_or_path, const std::string& where);

}  // namespace mbench::sim
