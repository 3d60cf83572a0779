// Layers that differ, between a trainer's list of layers and the rules of a spec ("layers_of").
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace mbench::formats {

// Rules that give these of all layers those parts: one rule where they stand regularly to the end, else one for each run of neighbours.
nlohmann::json rules_of_layers(const std::vector<std::int64_t>& chosen, std::int64_t layers,
                               const nlohmann::json& parts);

// The other way round: for each layer whether the rules give it that value of that part. Nothing where a rule says anything else.
std::vector<bool> layers_with(const nlohmann::json& rules, std::int64_t layers, const char* part,
                              const nlohmann::json& value);

}  // namespace mbench::formats
