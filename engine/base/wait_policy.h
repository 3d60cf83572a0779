// How threads of a rank wait for one another where the machine may be shared: they spin for a while and then sleep.
#pragma once
#include <array>
#include <utility>

namespace mbench {

// Environment variables that the OpenMP runtimes read as a process starts. 1000 spins bridge the pauses between small parallel regions and
// cost little next to a busy neighbour: figures in docs/evidence, by scripts/wait-policy. libomp counts milliseconds only, so it sleeps at
// once.
inline constexpr std::array<std::pair<const char*, const char*>, 2> kLookThenSleep{
    {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}}};

}  // namespace mbench
