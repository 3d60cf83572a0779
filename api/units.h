// Units of the figures in the public API.
#pragma once

namespace mbench::api {

inline constexpr double kMiB = 1048576;  // bytes

}  // namespace mbench::api
