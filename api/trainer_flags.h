// How the trainer whose framework a point has is told a layout.
#pragma once
#include <string>

namespace mbench {
struct Point;
}

namespace mbench::api {

// In Markdown: the lines of its script or TOML that say the layout, or why it cannot be told. Empty for mbench's own framework and those that no export is for.
std::string trainer_flags(const Point& point);

}  // namespace mbench::api
