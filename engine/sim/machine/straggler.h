// The slowest of many devices. Devices of one kind differ in the rate that they keep under their power limit, and a step that ends in a
// collective takes what its slowest device takes. So rates of GEMMs and attention are those that the slowest of N devices is expected to
// have, where the rates of a machine file are a usual device's.
//
// The rates are taken as normal, with the file's `device.rate_spread` as their relative standard deviation. The expected largest of N
// standard normal deviates is the quantile of (N - 3/8) / (N + 1/4) (Blom 1958, Statistical Estimates and Transformed Beta-Variables):
// 1.43 for 8 devices, 3.23 for 1,024.
#pragma once
#include <cstdint>

#include "engine/sim/machine/machine.h"

namespace mbench::sim {

// Of n standard normal deviates, n >= 1.
double expected_largest(std::int64_t n);

// The machine with the rates of its slowest device of `devices`.
Machine slowest_of(Machine machine, std::int64_t devices);

}  // namespace mbench::sim
