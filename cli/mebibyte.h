// The unit in which commands print memory.
#pragma once
#include <fmt/format.h>

#include <string>

namespace mbench::cli {

inline constexpr double kMib = 1048576;  // bytes

inline std::string mib(double bytes) {
  return fmt::format("{:.1f}", bytes / kMib);
}

}  // namespace mbench::cli
