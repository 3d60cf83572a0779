// Data files that the build put into the program (mbench_embed of cmake/embed.cmake): name without extension
// -> content, in the order of the names.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace mbench {

using EmbeddedFiles = std::map<std::string, std::string_view>;

}  // namespace mbench
