// A Hugging Face config: what is imported is a spec that reads.
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/hugging_face/hugging_face.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const auto config = parse_json(text, "config.json");
  if (!config.is_object() || !config.contains("model_type")) return;
  [[maybe_unused]] const Point imported = point_from_json(
      nlohmann::json(formats::read_hugging_face(config, "config.json", {"sliding_window", "qkv_bias"}).spec), "spec");
}
