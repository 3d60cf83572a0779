#pragma once
#include <functional>

namespace mbench::test {

/// Seconds of the processor that this process spends on `work`.
double cpu_seconds(const std::function<void()>& work);

/// What `measure` returns (seconds of work that it did), in seconds of an idle machine: divided by how much slower than there a fixed piece
/// of work runs here, just before and just after. A machine that is shared, slow, or that overwrites freed memory (MALLOC_PERTURB_) is slow
/// at both, so a bound on the result holds the program and not its neighbours. Never more than was measured.
double idle_seconds(const std::function<double()>& measure);

}  // namespace mbench::test
