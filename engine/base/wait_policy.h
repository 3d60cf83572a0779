// How threads of a rank wait for one another where the machine may be shared: they look a while and then sleep.
#pragma once
#include <array>
#include <utility>

namespace mbench {

// Environment variables, read by the OpenMP runtimes as a process starts. 1000 looks bridge the pauses between small parallel regions
// and cost little next to a busy neighbour: figures in docs/evidence, by scripts/wait-policy. libomp counts milliseconds only, and
// sleeps at once.
inline constexpr std::array<std::pair<const char*, const char*>, 2> kLookThenSleep{
    {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}}};

}  // namespace mbench
