// The slowest of many devices. Devices of one kind differ in the rate that they keep under their power limit, and a step that ends in a
// collective takes what its slowest device takes. So rates of GEMMs and attention are those that the slowest of N devices is expected to
// have, where the rates of a machine file are a usual device's.
//
// The rates are taken as normal, with the file's `device.rate_spread` as their relative standard deviation (base/expected_largest.h).
#pragma once
#include <cstdint>

#include "engine/sim/machine/machine.h"

namespace mbench::sim {

// The machine with the rates of its slowest device of `devices`.
Machine slowest_of(Machine machine, std::int64_t devices);

}  // namespace mbench::sim
