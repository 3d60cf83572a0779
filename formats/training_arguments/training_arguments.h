// Hugging Face TrainingArguments, as JSON or YAML, and what is written around them: axolotl's and LLaMA-Factory's YAML. They name a
// model; mbench has its sizes if it is a preset. They also name a DeepSpeed config, a file next to them.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

const Table& training_arguments_table();

bool is_training_arguments(const nlohmann::ordered_json& object);
// `lines` of keys, where the file is YAML.
Imported read_training_arguments(const nlohmann::ordered_json& object, const std::map<std::string, int>& lines,
                                 const std::string& file, const std::vector<std::string>& without);

}  // namespace mbench::formats
