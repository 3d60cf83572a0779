// What a machine file says that the figures of a check should be. Products: the peak times the share of it that the largest
// products keep up; memory: its bandwidth times the share that a large kernel reaches; launch: what the driver takes, or the
// shortest kernel, whichever is longer, without the engine's own share; collectives: by the links of the group's ranks. Where
// the ranks of a host share its processor they share these.
#pragma once
#include "engine/sim/machine.h"
#include "health/figures.h"

namespace mbench::health {

// Fills in what the machine says of each figure; what it says nothing of stays as it is.
void expect(Health& health, const Machine& machine);

}  // namespace mbench::health
