// Descriptions of the fields of a spec for people and for programs, made from the table of fields.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench {

// What `mbench help FIELD` prints: values, default, unit, meaning. bad_input with the nearest field if there is none of that name.
std::string describe_field(const std::string& key);
// A line for each field: what `mbench help` prints.
std::string list_fields();
// docs/reference/fields.md.
std::string fields_page();
// For scripts, of each field: key, kind, default, unit, description, choices and what it bears on.
nlohmann::ordered_json fields_json();

}  // namespace mbench
