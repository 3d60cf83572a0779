// A trainer's YAML: what is imported is a spec that reads.
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/megatron/config_yaml.h"
#include "formats/training_arguments/training_arguments.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const formats::Yaml yaml = formats::parse_yaml(text, "a.yaml");
  if (formats::is_training_arguments(yaml.value)) {
    auto spec = formats::read_training_arguments(yaml.value, yaml.lines, "a.yaml", {"deepspeed"}).spec;
    if (spec.contains("model")) [[maybe_unused]]
      const Point imported = point_from_json(nlohmann::json(spec), "spec");
  } else if (formats::is_megatron(yaml)) {
    [[maybe_unused]] const Point imported =
        point_from_json(nlohmann::json(formats::read_megatron(yaml, "a.yaml", {}).spec), "spec");
  }
}
