// What the sources of Hugging Face's rules share.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "formats/table/rules.h"

namespace mbench::formats {

// An object's member, or null.
nlohmann::json member(const nlohmann::json& object, const char* key);

// Rules for layers that differ from one another: windows, positions, experts.
const std::vector<Rule>& layer_rules();
// Rules for models with state mixers.
const std::vector<Rule>& state_rules();

}  // namespace mbench::formats
