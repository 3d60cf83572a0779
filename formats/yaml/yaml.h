// YAML as JSON, by libyaml's events, with bounds: an anchor's value counts each time it is repeated, so that no small file becomes a large one. Plain words are
// what YAML 1.1 and PyYAML make of them, but that "1e-4" is a number, as whoever writes it means. Of tags `!!str` counts, and no other makes anything.
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

// Of one document. Merge keys (`<<`) are merged. bad_input at file:line for what is no YAML, beyond the bounds, a key that stands twice, or a second document.
Yaml parse_yaml(std::string_view text, const std::string& file);

}  // namespace mbench::formats
