// torchtitan's TOML, in the spellings of 2024 and 2025.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

const Table& torchtitan_table();

// The preset of mbench that equals a flavor of a model, or nothing.
std::string_view preset_of_flavor(std::string_view name_and_flavor);  // "llama3/8B"
// The flavor whose preset is this model (table/flat.h), except for its name and its longest sequence, or nothing.
std::string_view flavor_of(const nlohmann::json& flat_model);

Imported read_torchtitan(std::string_view text, const std::string& file, const ImportOptions& options);
std::string write_torchtitan(const Point& point);

}  // namespace mbench::formats
