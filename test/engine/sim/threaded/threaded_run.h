// The oracle of the simulator: the engine runs every op of every micro batch, a thread for each pipeline stage, on devices with virtual
// clocks. Nothing is recorded. A simulation gives the same figures to the last bit, but for what PyTorch's allocator reserves, which
// takes more steps to find than are run here.
#pragma once
#include "engine/sim/run/simulate.h"

namespace mbench::test {

// Throws as simulate_point does. Where several stages have too little memory, the error is of the first that gets so far.
sim::Simulation run_in_threads(const Point& point, const Plan& plan, const sim::Machine& machine, int devices,
                               bool trace = false);

}  // namespace mbench::test
