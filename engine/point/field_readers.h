// Readers of fields that are more than a number, a flag or a name. Each refuses bad values at `where`, with what it needs.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/adapter.h"
#include "engine/point/choices.h"
#include "engine/point/document_lengths.h"
#include "engine/point/field_values.h"
#include "engine/point/router.h"

namespace mbench {

Zero read_zero(const nlohmann::json& value, const std::string& where);  // 0 to 3, or a name
nlohmann::ordered_json zero_schema();
std::uint64_t read_memory_limit(const nlohmann::json& value, const std::string& where);  // bytes, or "2GiB"
std::map<std::string, std::string> read_env(const nlohmann::json& value, const std::string& where);
std::map<std::string, double> read_machine(const nlohmann::json& value, const std::string& where);

using TextReader = std::string (*)(const nlohmann::json& value, const std::string& where);
FieldValues<TextReader> data_values();
FieldValues<TextReader> device_values();
FieldValues<TextReader> strategy_values();
FieldValues<RouterMode (*)(const nlohmann::json& value, const std::string& where)> router_values();
FieldValues<AdapterSpec (*)(const nlohmann::json& value, const std::string& where)> adapter_values();
FieldValues<DocumentLengths (*)(const nlohmann::json& value, const std::string& where)> document_lengths_values();
std::vector<FieldChoice> recompute_choices();
std::vector<FieldChoice> capture_choices();
std::vector<FieldChoice> offloaded_activations_choices();
std::vector<FieldChoice> node_placement_choices();

}  // namespace mbench
