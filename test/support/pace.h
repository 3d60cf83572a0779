// How long work takes, relative to the speed of the machine at that moment.
#pragma once
#include <functional>

namespace mbench::test {

/// Seconds of the processor that this process spends on `work`.
double cpu_seconds(const std::function<void()>& work);

/// What `measure` returns (seconds of work that it did), in seconds of an idle machine. It is divided by the slowdown of a fixed piece
/// of work, run here just before and just after. A shared or slow machine slows both, so a bound on the result tests the program and
/// not its neighbours. Never more than was measured.
double idle_seconds(const std::function<double()>& measure);

/// A bound in seconds; twice as much where freed memory is overwritten (MALLOC_PERTURB_), as CTest has it done.
double allowed_seconds(double seconds);

}  // namespace mbench::test
