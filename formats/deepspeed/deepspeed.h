// DeepSpeed's JSON: how a run is sharded, its batch and precision. It has no model: that is another file's.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

const Table& deepspeed_table();

bool is_deepspeed(const nlohmann::ordered_json& object);
// Fields of a run, to be merged over a model's. Where they say "auto", whoever starts DeepSpeed decides.
Imported read_deepspeed(const nlohmann::ordered_json& config, const std::string& file,
                        const std::vector<std::string>& without);
// For a point with only data parallelism; the training script decides how its layers compute.
nlohmann::ordered_json write_deepspeed(const Point& point);

}  // namespace mbench::formats
