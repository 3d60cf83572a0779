// What a layout asks of a simulated machine that its units do not like, and what it costs: sizes that are no multiple of a
// matrix product's tile, a vocabulary that is mostly padding, stages out of balance, tensor parallelism that leaves the
// node. Every cost is the difference of two simulations, of the point as it is and with one thing changed; what the cost
// model sees no cost in is not told, but for rows that are no multiple of 16 bytes, which it does not know of (NVIDIA, Matrix
// Multiplication Background User's Guide, DU-09799-001, 3: Requirements to Use Tensor Cores).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/sim/machine.h"
#include "engine/sim/simulate.h"

namespace mbench::search {

// Simulates a step; throws Error where the point cannot be.
using Simulate = std::function<Simulation(const Point&)>;

// Where the loader decides the step's time: what it makes on the host, and with how many loader_workers (2 where there are none, else twice as
// many) how much less time a step takes. Nothing where that is less than `least`, a share of the step. Only of masked words does a loader
// take time (engine/framework: masked_token).
std::optional<std::string> loader_decides(const Point& point, const Simulation& now, const Simulate& simulate,
                                          double least = 0.005);

// A sentence each, the most costly first; none where nothing is to be said. `now` is the point's own simulation.
std::vector<std::string> advise(const Point& point, const Simulation& now, const Machine& machine,
                                const Simulate& simulate);

}  // namespace mbench::search
