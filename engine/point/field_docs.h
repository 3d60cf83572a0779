// What is said of the fields of a spec to people and to programs, made from the table of fields.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench {

// What `mbench help FIELD` prints: values, default, unit, meaning. bad_input for what is no field, with the nearest one.
std::string describe_field(const std::string& key);
// A line for each field: what `mbench help` prints.
std::string list_fields();
// docs/reference/fields.md.
std::string fields_page();
// Key, kind, default, unit, description, choices and what it bears on, of each field: for scripts.
nlohmann::ordered_json fields_json();

}  // namespace mbench
