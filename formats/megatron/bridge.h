// A point as a ConfigContainer of Megatron-Bridge, in YAML.
#pragma once
#include <string>

namespace mbench {
struct Point;
}

namespace mbench::formats {

// What Megatron-LM's flags say of the point, as attributes (attributes.json). Throws unsupported naming what has none.
std::string write_megatron_bridge(const Point& point);

}  // namespace mbench::formats
