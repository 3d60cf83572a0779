// YAML of Megatron. It is the ConfigContainer of Megatron-Bridge (as printed, or a part of it), Megatron-LM's --yaml-cfg, or the
// model_config.yaml of its tests, whose MODEL_ARGS are flags. Names of attributes become flags (attributes.json), and the table of
// flags reads these.
#pragma once
#include <string>

#include "formats/formats.h"
#include "formats/yaml/yaml.h"

namespace mbench::formats {

bool is_megatron(const Yaml& yaml);
Imported read_megatron(const Yaml& yaml, const std::string& file, const ImportOptions& options);

}  // namespace mbench::formats
