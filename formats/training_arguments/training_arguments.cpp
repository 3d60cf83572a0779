#include "formats/training_arguments/training_arguments.h"

#include <algorithm>
#include <filesystem>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "formats/deepspeed/deepspeed.h"
#include "formats/table/reading.h"

namespace mbench::training_argument_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

namespace fs = std::filesystem;

void flatten(const ordered_json& object, const std::string& prefix, const std::map<std::string, int>& lines,
             const std::string& file, std::vector<Item>& items) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    const auto line = lines.find(path);
    if (value.is_object() && key != "deepspeed")
      flatten(value, path + ".", lines, file, items);
    else
      items.push_back(
          {path, json(value),
           line == lines.end() ? fmt::format("{}: $.{}", file, path) : fmt::format("{}:{}", file, line->second)});
  }
}

// The DeepSpeed config that the arguments name, where it lies: beside the file, below its folders, or from here.
std::string deepspeed_beside(const std::string& name, const std::string& file) {
  std::error_code ignored;
  for (fs::path folder = fs::path(file).parent_path();; folder = folder.parent_path()) {
    if (const fs::path path = folder / name; fs::is_regular_file(path, ignored)) return path.string();
    if (!folder.has_relative_path()) break;
  }
  return fs::is_regular_file(name, ignored) ? name : "";
}

void add_deepspeed(const json& value, const std::string& file, const std::vector<std::string>& without,
                   Imported& imported) {
  ordered_json config;
  std::string where = file + ": $.deepspeed";
  if (value.is_object()) {
    config = ordered_json(value);
  } else if (value.is_string() && !value.get<std::string>().empty()) {
    where = deepspeed_beside(value.get<std::string>(), file);
    if (where.empty()) {
      imported.notes.push_back(
          fmt::format("the DeepSpeed config {} is not here: how state is sharded is that file's, mbench import {} {}",
                      value.get<std::string>(), file, value.get<std::string>()));
      return;
    }
    config = parse_json(read_text_file(where), where);
  } else {
    return;
  }
  const Imported more = read_deepspeed(config, where, without);
  // What the arguments say too is theirs, but where the config says it itself.
  const auto says = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return config.contains(key); });
  };
  for (const auto& [key, field] : more.spec.items()) {
    const bool own = key == "zero" || key == "offload" || key == "tp" ||
                     (key == "precision" && says({"bf16", "fp16"})) ||
                     (key == "clip_grad" && says({"gradient_clipping"})) || (key == "optimizer" && says({"optimizer"}));
    if (own) imported.spec[key] = field;
  }
  const auto framework = imported.spec.find("framework");
  if (framework != imported.spec.end() && framework->is_object() && framework->value("preset", "") == "deepspeed" &&
      more.spec.contains("framework"))
    framework->update(more.spec.at("framework"));
  for (const std::string& note : more.notes)
    if (note.find("how many ranks start") == std::string::npos) imported.notes.push_back(where + ": " + note);
}

}  // namespace

const Table& training_arguments_table() {
  static const Table table = [] {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const auto& [name, text] : training_argument_files::files()) files.emplace_back(name, text);
    return read_table("options", files);
  }();
  return table;
}

bool is_training_arguments(const ordered_json& object) {
  if (!object.is_object()) return false;
  for (const char* key : {"per_device_train_batch_size", "model_name_or_path", "base_model", "finetuning_type"})
    if (object.contains(key)) return true;
  return false;
}

Imported read_training_arguments(const ordered_json& object, const std::map<std::string, int>& lines,
                                 const std::string& file, const std::vector<std::string>& without) {
  std::vector<Item> items;
  flatten(object, "", lines, file, items);
  std::erase_if(items,
                [](const Item& item) { return item.value.is_null(); });  // "adapter:" without a value is not given
  Reading reading(training_arguments_table(), std::move(items), file, without);
  reading.read();
  Imported imported{reading.spec(), reading.notes()};
  if (const auto deepspeed = object.find("deepspeed");
      deepspeed != object.end() && std::find(without.begin(), without.end(), "deepspeed") == without.end())
    add_deepspeed(json(*deepspeed), file, without, imported);
  return imported;
}

}  // namespace mbench::formats
