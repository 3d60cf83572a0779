// The parts of a model by name, for the files of families and the specs that override them. Only model_spec.cpp uses it.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/model_spec.h"

namespace mbench {

class ObjectReader;

struct PartField {
  std::string key;
  std::function<void(ModelParts&, const nlohmann::json&, const std::string& where)> read;
  std::function<nlohmann::json(const ModelParts&)> write;
  bool optional = false;  // a family need not name it
  std::string also = {};  // another spelling, used in published configurations
  // Copies the part of `from`, for layers that differ in it; null where all layers have the same.
  std::function<void(ModelParts& to, const ModelParts& from)> copy = nullptr;
};

const std::vector<PartField>& part_fields();
// What an object says of a part, by any of its spellings; null if nothing. bad_input if it says it twice.
const nlohmann::json* find_part(ObjectReader& object, const PartField& part);

// "multipliers", as a spec says them.
void read_multipliers(ModelParts& parts, const nlohmann::json& value, const std::string& where);
nlohmann::json write_multipliers(const ModelParts& parts);

// "layers_of": the rules of a model whose parts have been read.
std::vector<LayerRule> read_layers_of(const ModelSpec& model, const nlohmann::json& value, const std::string& where);
nlohmann::json write_layers_of(const ModelSpec& model);

}  // namespace mbench
