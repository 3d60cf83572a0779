// Specs by name, those that come with the program; and what is no spec yet but can be read as one.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mbench::cli {

// The path itself where there is such a file or folder; of a bare name ("quickstart", "search/llama-3-70b-64") the spec of the
// installed configs, or of those of the sources that this program was built from. bad_input naming the nearest for what is neither.
std::string find_spec(const std::string& path);

// What a trainer's own file is as a spec (formats/), or a spec whose model is that of a config.json ({"hf": PATH}), notes on standard
// error; nothing where the file is another spec, or no file.
// `of_trainer`: whether it was the first.
std::optional<nlohmann::ordered_json> imported_spec(const std::string& path, bool* of_trainer = nullptr);

// What --on means, a machine by its whole name. Where a short name is taken as one of several machines, standard error says so.
std::string device_asked(const std::string& device);

}  // namespace mbench::cli
