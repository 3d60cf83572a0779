// YAML as JSON, by libyaml's events, with bounds: an anchor's value counts each time it is repeated, so no small file becomes a large
// one. Plain words are read as in YAML 1.1 and PyYAML, except that "1e-4" is a number, as its writer means. Only the tag `!!str` has an
// effect.
#pragma once
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mbench::formats {

inline constexpr std::size_t kMostYamlBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostYamlNodes = 100'000;  // with those that aliases repeat

struct Yaml {
  nlohmann::ordered_json value;
  std::map<std::string, int> lines;  // of each key by its path: "model.num_layers" -> 12
};

// Parses one document. Merge keys (`<<`) are merged. Throws bad_input at file:line for text that is no YAML or beyond the bounds, for a
// repeated key, and for a second document.
Yaml parse_yaml(std::string_view text, const std::string& file);

}  // namespace mbench::formats
