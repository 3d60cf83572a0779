// Advice on a layout: what fits its simulated machine badly, and what that costs. Such are sizes that are no multiple of a GEMM tile, a
// vocabulary that is mostly padding, stages out of balance, and tensor parallelism across nodes.
//
// A cost is the difference of two simulations: the point as it is, and with one thing changed. What costs nothing in the cost model is
// not reported. Rows that are no multiple of 16 bytes are reported even so, since the cost model does not know of them. Source: NVIDIA,
// Matrix Multiplication Background User's Guide, DU-09799-001, 3: Requirements to Use Tensor Cores.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/sim/machine/machine.h"
#include "engine/sim/run/simulate.h"

namespace mbench::search {

// Simulates a step. Throws Error where the point is impossible.
using Simulate = std::function<sim::Simulation(const Point&)>;

// For a step whose time the loader decides: what the loader makes on the host, and how much less time a step takes with more
// loader_workers. These are 2 where there are none, else twice as many. Nothing where the gain is below `least`, a share of the step. A
// loader takes time only for masked words (engine/framework: masked_token).
std::optional<std::string> loader_decides(const Point& point, const sim::Simulation& now, const Simulate& simulate,
                                          double least = 0.005);

// One sentence for each piece of advice, the most costly first; empty where there is none. `now` is the point's own simulation.
std::vector<std::string> advise(const Point& point, const sim::Simulation& now, const sim::Machine& machine,
                                const Simulate& simulate);

}  // namespace mbench::search
