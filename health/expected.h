// The figures that a check should have by a machine file. Ranks of a host that share its processor share these figures.
//
//   GEMMs        the peak times the share of it that the largest GEMMs keep up.
//   memory       its bandwidth times the share that a large kernel reaches.
//   launch       what the driver takes, or the shortest kernel, whichever is longer, without the engine's own share.
//   collectives  by the links of the group's ranks.
#pragma once
#include "engine/sim/machine.h"
#include "health/figures.h"

namespace mbench::health {

// Fills in the machine's value of each figure; a figure without one stays as it is.
void expect(Health& health, const Machine& machine);

}  // namespace mbench::health
