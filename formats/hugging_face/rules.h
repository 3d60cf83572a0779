// What the sources of Hugging Face's rules share.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "formats/table/rules.h"

namespace mbench::formats {

// An object's member, or null.
nlohmann::json member(const nlohmann::json& object, const char* key);
// A number that has been computed, as an integer where it is whole.
nlohmann::json as_number(double value);

// A spec's scaling of rotary angles as the `rope_scaling` of a config.
nlohmann::json rope_scaling_of(const nlohmann::json& scaling);

// A rope of a spec, from an object of parameters of version 5; null where there is none.
nlohmann::json rope_from(const nlohmann::json& parameters, const nlohmann::json& positions);
// The inverse.
nlohmann::json rope_parameters_of(const nlohmann::json& rope);

// A window of all layers but those of a list of kinds that are full, which also have `parts_of_full`. No list: of all layers.
void set_window_by(Reading& reading, const nlohmann::json& window, const nlohmann::json& kinds,
                   nlohmann::json parts_of_full);
void write_layer_types(Writing& writing);

// What layers have experts: `dense` says which do not. The first ones are dense_layers, others rules. And those that have none.
void set_dense(Reading& reading, const std::function<bool(std::int64_t)>& dense);
std::vector<bool> dense_of(const Writing& writing);

// Rules for angles of rotary positions.
const std::vector<Rule>& rope_rules();
// Rules for layers that differ from one another: windows, positions, experts.
const std::vector<Rule>& layer_rules();
// Rules for models with state mixers.
const std::vector<Rule>& state_rules();
// Rules for models whose layers mix attention with other readers of a sequence.
const std::vector<Rule>& mixer_rules();
// Rules for which layers have experts, by lists, and for windows with angles of their own.
const std::vector<Rule>& layer_list_rules();
// The rule for classes that label samples, which every type has.
const std::vector<Rule>& label_rules();
// Rules for models whose classes stand in their own repositories.
const std::vector<Rule>& repository_rules();

}  // namespace mbench::formats
