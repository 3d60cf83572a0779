// The figures that a check should have by a machine file. Ranks of a host that share its processor share these figures.
//
//   GEMMs        the peak times the share of it that the largest GEMMs keep up.
//   memory       its bandwidth times the share that a large kernel reaches.
//   launch       what the driver takes, or the shortest kernel, whichever is longer, without the engine's own share.
//   collectives  by the links of the group's ranks. Where their bandwidth is an estimate it is no data sheet: Measured::estimated.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/sim/machine/machine.h"
#include "health/figures.h"

namespace mbench::health {

// Which bandwidths of a machine's file are estimates.
struct EstimatedLinks {
  std::vector<std::pair<int, bool>> groups;  // of so many ranks of a node, ascending
  bool p2p = false, network = false;
};
EstimatedLinks estimated_links(const nlohmann::ordered_json& machine);

// Fills in the machine's value of each figure; a figure without one stays as it is.
void expect(Health& health, const sim::Machine& machine, const EstimatedLinks& estimated = {});
// The same of a machine by its name or file, as find_machine().
void expect(Health& health, const std::string& machine, const std::string& where);

}  // namespace mbench::health
