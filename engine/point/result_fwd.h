// Names of what a run gives, for headers that only pass it on.
#pragma once

namespace mbench {

struct Point;
struct PointResult;
struct ResultFile;

}  // namespace mbench
