// DeepSpeed's JSON: how a run is sharded, its batch and precision. It has no model: that is another file's.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

const Table& deepspeed_table();

bool is_deepspeed(const nlohmann::ordered_json& object);
// Fields of a run, to be put over a model's. "auto" leaves a field to whoever starts DeepSpeed.
Imported read_deepspeed(const nlohmann::ordered_json& config, const std::string& file,
                        const std::vector<std::string>& without);
// Of a point without other parallelism than data's; how its layers compute is the training script's.
nlohmann::ordered_json write_deepspeed(const Point& point);

}  // namespace mbench::formats
