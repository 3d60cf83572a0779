// Which points are meant: fields and values, as many as needed ("where" of published rows and of gates).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mbench {

// Field and value as a point writes them; a named model is written as its name.
using Where = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

// bad_input naming the JSON path for a field that does not exist, or a value that it cannot have.
Where read_where(const nlohmann::json& value, const std::string& path);

// `fields`: a point as point_in_words() has it, or a record of it.
bool picks(const Where& where, const nlohmann::ordered_json& fields, const std::string& model_name);

}  // namespace mbench
