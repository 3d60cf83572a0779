// Layouts drawn from a seed: any fields that can be together, of small models of every family, on 2 to 8 ranks.
#pragma once
#include <cstdint>

#include "test/mpi/layouts.h"

namespace mbench::test {

// `count` layouts that are all different; the same for the same seed on every machine and rank.
std::vector<Layout> random_layouts(std::uint64_t seed, std::size_t count);

}  // namespace mbench::test
