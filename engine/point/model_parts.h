// The parts of a model by name, for the files of families and the specs that override them. Used by
// model_spec.cpp alone.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/point/model_spec.h"

namespace mbench {

struct PartField {
  std::string key;
  std::function<void(ModelParts&, const nlohmann::json&, const std::string& where)> read;
  std::function<nlohmann::json(const ModelParts&)> write;
  bool optional = false;  // a family need not name it
};

const std::vector<PartField>& part_fields();

}  // namespace mbench
