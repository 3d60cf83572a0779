// --memory-margin of a search: what a layout must leave free of a device's memory.
#pragma once
#include <string>

#include "engine/point/point.h"
#include "engine/sim/machine/machine.h"

namespace mbench::api {

struct MemoryMargin {
  double mib = 0;
  std::string about;  // "5 % for fragments of megatron-core's allocator"; empty: none
};

// `given`: "5%" of what the allocator could have, or bytes such as "4GiB". Empty: the framework's own share, or none where the point
// has a memory_limit. Throws bad_input for any other text, and for a margin that takes all memory.
MemoryMargin memory_margin(const std::string& given, const Point& point, const sim::Machine& machine);

}  // namespace mbench::api
