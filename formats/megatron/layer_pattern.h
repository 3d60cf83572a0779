// How Megatron-LM writes which layers are of a kind: a number, or a Python expression of lists ("([0]*3+[1]*58)").
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench::formats {

// A one or a zero for each layer; empty where it is none, or one of other than so many layers. A number N: of N layers one is another, the
// last one (zero, `last_is_zero`: moe's sliding windows) or the first one (one: experts).
std::vector<int> layer_pattern(const nlohmann::json& given, std::int64_t layers, bool last_is_zero);
std::vector<std::int64_t> layers_that_are(const std::vector<int>& pattern, int value);
// The expression, with a zero for each of those layers.
std::string pattern_text(const std::vector<bool>& zeros);

// "128,0", "(128, 0)", [128, 0]; empty where it is none of these.
std::vector<std::int64_t> two_sides(const nlohmann::json& given);

}  // namespace mbench::formats
