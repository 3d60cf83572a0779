// What a point needs, known without running it.
#pragma once
#include <cstdint>
#include <string>

#include "sweeps/run/forecast.h"

namespace mbench {
struct Point;
}
namespace mbench::sweeps {
struct Launcher;
}

namespace mbench::cli {

// Why ranks that need so many bytes together do not fit this machine's memory, or what a job's limit leaves of it; empty: they fit.
std::string does_not_fit(std::int64_t ranks, std::uint64_t bytes);

// Whether it fits this machine, and about how long it takes.
sweeps::Forecast preflight(const Point& point, const sweeps::Launcher& launcher);

}  // namespace mbench::cli
