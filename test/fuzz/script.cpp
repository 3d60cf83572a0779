// A shell script that starts Megatron-LM, or a list of its arguments: what is imported is a spec that reads.
#include <nlohmann/json.hpp>

#include "engine/point/point.h"
#include "formats/megatron/megatron.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  [[maybe_unused]] const Point imported =
      point_from_json(nlohmann::json(formats::read_megatron(text, "a.sh", {}).spec), "spec");
}
