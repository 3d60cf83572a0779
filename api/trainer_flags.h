// The flags that give a layout to the trainer of a point's framework.
#pragma once
#include <string>

namespace mbench {
struct Point;
}

namespace mbench::api {

// Markdown with the lines of its script or TOML that express the layout, or the reason why it cannot express it. Empty for mbench's own
// framework and for those without an export. `whole`: whether an export has all of the layout.
std::string trainer_flags(const Point& point, bool* whole = nullptr);

}  // namespace mbench::api
