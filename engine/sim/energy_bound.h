// What a step takes in energy at least, before it is simulated.
#pragma once
#include "engine/sim/machine.h"

namespace mbench {
struct Point;
}

namespace mbench::sim {

// No step of that point takes less that takes so many seconds at least: its devices draw what idle ones do, and for the model's FLOPs at
// the highest peak what GEMMs add to that. 0 where the machine's power is not known.
double least_joules(const Point& point, double seconds, const Machine& machine);

}  // namespace mbench::sim
