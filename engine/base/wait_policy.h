// How threads of a rank wait for one another where the machine may be shared: they look a while and then sleep.
#pragma once
#include <array>
#include <utility>

namespace mbench {

// Environment variables, read by the OpenMP runtimes as a process starts. 1000 looks take some 15 to 70 us: the pause of a small
// parallel region, and little of what a neighbour's turn on the core takes. Measured by scripts/wait-policy, with figures in
// docs/numbers.md. libomp knows milliseconds only, and sleeps at once. OMP_WAIT_POLICY or GOMP_SPINCOUNT of the user's win.
inline constexpr std::array<std::pair<const char*, const char*>, 2> kLookThenSleep{
    {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}}};

}  // namespace mbench
