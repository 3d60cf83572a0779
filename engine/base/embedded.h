// Data files that the build put into the program (mbench_embed of cmake/embed.cmake): name without extension -> content, in the order of
// the names.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mbench {

using EmbeddedFiles = std::map<std::string, std::string_view>;

std::vector<std::string> names_of(const EmbeddedFiles& files);

// Whether a text names a user's file instead of a built-in one: it has a "/" or ends in ".json".
bool is_path(std::string_view name);

// The JSON of a file by its built-in name or its path, and its name for messages. `kind` is "machine" or the like. bad_input at `where`
// with the nearest name if it is neither.
std::pair<nlohmann::ordered_json, std::string> load_file(const EmbeddedFiles& files, std::string_view kind,
                                                         const std::string& name, const std::string& where);

}  // namespace mbench
