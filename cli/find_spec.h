// Finds the specs that come with the program by name, and reads files of other formats as specs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/import_options.h"

namespace CLI {
class App;
}

namespace mbench::sweeps {
struct SpecOptions;
}

namespace mbench::cli {

// The path itself where there is such a file or folder. For a bare name ("quickstart", "search/llama-3-70b-64"): that spec of the
// installed configs, or of the sources that this program was built from. Throws bad_input naming the nearest if there is neither.
std::string find_spec(const std::string& path);

// The spec in a trainer's own file (formats/), or a spec whose model comes from a config.json ({"hf": PATH}). Notes go to standard
// error. Nothing where the file is another spec, or no file. `of_trainer`: whether it was a trainer's file.
// `device`: of --on; a simulated one says how many devices run it.
std::optional<nlohmann::ordered_json> imported_spec(const std::string& path, formats::ImportOptions how = {},
                                                    const std::string& device = "", bool* of_trainer = nullptr);

// Finds the spec that a command was given, and reads it where it is a trainer's file.
void find_and_import(sweeps::SpecOptions& spec, const formats::ImportOptions& how = {});

// --without, --var and --also, for a command that reads a trainer's file.
void add_import_options(CLI::App& command, formats::ImportOptions& how);

// What --on means, with the machine's full name. Where a short name matches several machines, standard error reports which one is
// taken.
std::string device_asked(const std::string& device);

}  // namespace mbench::cli
