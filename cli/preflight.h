// What a point needs, known without running it.
#pragma once
#include "sweeps/forecast.h"

namespace mbench {
struct Point;
}
namespace mbench::sweeps {
struct Launcher;
}

namespace mbench::cli {

// Whether it fits this machine, and about how long it takes.
sweeps::Forecast preflight(const Point& point, const sweeps::Launcher& launcher);

}  // namespace mbench::cli
