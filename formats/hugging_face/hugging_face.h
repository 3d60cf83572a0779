// A Hugging Face config.json: of a model, by its model_type. Each type is a table of types/.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

// All types, by name, also those that are always refused.
const std::vector<Table>& hugging_face_tables();

// "model" and the few fields of a run that a config has.
Imported read_hugging_face(const nlohmann::ordered_json& config, const std::string& file,
                           const std::vector<std::string>& without);
// The config of the point's model, by the first type that can express it.
nlohmann::ordered_json write_hugging_face(const Point& point);

}  // namespace mbench::formats
