// Units of the face's figures.
#pragma once

namespace mbench::api {

inline constexpr double kMiB = 1048576;  // bytes

}  // namespace mbench::api
