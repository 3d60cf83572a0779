// JSON as Python's json writes it: numbers that are none stand as NaN, Infinity and -Infinity, which JSON has no word for.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace mbench::formats {

// parse_json() of a text in which each of these, outside strings, is {"__float__": "Infinity"}, as version 5 of transformers writes it.
nlohmann::ordered_json parse_python_json(const std::string& text, const std::string& file);

}  // namespace mbench::formats
