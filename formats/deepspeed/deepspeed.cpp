#include "formats/deepspeed/deepspeed.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/table/flat.h"
#include "formats/table/reading.h"
#include "formats/table/writing.h"

namespace mbench::deepspeed_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

// "zero_optimization.stage" for an object within; a list is a value.
void flatten(const ordered_json& object, const std::string& prefix, const std::string& file, std::vector<Item>& items) {
  for (const auto& [key, value] : object.items())
    if (value.is_object())
      flatten(value, prefix + key + ".", file, items);
    else
      items.push_back({prefix + key, json(value), file + ": $." + prefix + key});
}

// What a config of DeepSpeed decides of a point; the rest is the training script's.
constexpr const char* kDecided[] = {
    "micro_batch",  "global_batch", "zero", "offload", "precision", "clip_grad", "optimizer",          "learning_rate",
    "weight_decay", "tp",           "pp",   "cp",      "ep",        "dp",        "optimizer_instances"};

}  // namespace

const Table& deepspeed_table() {
  static const Table table = [] {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const auto& [name, text] : deepspeed_files::files()) files.emplace_back(name, text);
    return read_table("options", files);
  }();
  return table;
}

bool is_deepspeed(const ordered_json& object) {
  return std::any_of(object.items().begin(), object.items().end(), [](const auto& item) {
    return item.key() == "zero_optimization" || item.key() == "train_micro_batch_size_per_gpu" ||
           item.key() == "train_batch_size" || item.key() == "gradient_accumulation_steps";
  });
}

Imported read_deepspeed(const ordered_json& config, const std::string& file, const std::vector<std::string>& without) {
  std::vector<Item> items;
  flatten(config, "", file, items);
  Reading reading(deepspeed_table(), std::move(items), file, without);
  reading.read();
  return {reading.spec(), reading.notes()};
}

ordered_json write_deepspeed(const Point& point) {
  const ordered_json flat = flat_point(point);
  Writing writing(deepspeed_table(), flat);
  writing.write();
  std::vector<std::string> faults = writing.faults();
  ordered_json config = ordered_json::object();
  for (const auto& [key, value] : writing.items()) set_field(config, key, value);
  if (faults.empty()) {
    ordered_json spec = read_deepspeed(config, "ds_config.json", {}).spec;
    spec["model"] = write_model(point.model);
    const ordered_json again = flat_point(point_from_json(json(spec), "ds_config.json"));
    for (const char* field : kDecided)
      for (const std::string& each : differences(flat.at(field), again.at(field), field)) faults.push_back(each);
  }
  if (!faults.empty())
    fail(ErrorKind::unsupported, "DeepSpeed", "no config says {}, got {}", point.model.name, fmt::join(faults, "; "));
  return config;
}

}  // namespace mbench::formats
