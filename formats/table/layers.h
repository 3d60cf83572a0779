// Layers that differ, between a trainer's list of layers and the rules of a spec ("layers_of").
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace mbench::formats {

class Reading;

// Rules that give the listed layers those parts. It is one rule where they repeat regularly to the end, else one for each run of
// neighbours.
nlohmann::json rules_of_layers(const std::vector<std::int64_t>& chosen, std::int64_t layers,
                               const nlohmann::json& parts);

// Adds rules after those that "model.layers_of" has.
void add_layers(Reading& reading, const nlohmann::json& rules);

// The inverse: for each layer, whether the rules give it that value of that part, whatever else they say. Nothing where there are no
// rules, or one gives another value.
std::vector<bool> layers_with(const nlohmann::json& rules, std::int64_t layers, const char* part,
                              const nlohmann::json& value);

// Whether rules change no parts but these.
bool rules_say(const nlohmann::json& rules, const std::vector<std::string_view>& parts);

}  // namespace mbench::formats
