// The unit in which commands print memory.
#pragma once

namespace mbench::cli {

inline constexpr double kMib = 1048576;  // bytes

}  // namespace mbench::cli
