#include "formats/formats.h"

#include <filesystem>

#include "engine/base/json_reader.h"
#include "formats/deepspeed/deepspeed.h"
#include "formats/hugging_face/hugging_face.h"
#include "formats/hugging_face/python_json.h"
#include "formats/megatron/bridge.h"
#include "formats/megatron/config_yaml.h"
#include "formats/megatron/megatron.h"
#include "formats/table/flat.h"
#include "formats/torchtitan/torchtitan.h"
#include "formats/training_arguments/training_arguments.h"

namespace mbench::formats {

using nlohmann::ordered_json;

std::string_view name_of(Format format) {
  switch (format) {
    case Format::spec:
      return "a spec";
    case Format::hugging_face:
      return "a Hugging Face config";
    case Format::megatron:
      return "a Megatron-LM script";
    case Format::megatron_yaml:
      return "a YAML of Megatron-LM or Megatron-Bridge";
    case Format::training_arguments:
      return "TrainingArguments";
    case Format::torchtitan:
      return "a torchtitan TOML";
    case Format::deepspeed:
      return "a DeepSpeed config";
  }
  return "";
}

namespace {

bool is_yaml(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

}  // namespace

Format recognise(std::string_view text, const std::string& path) {
  if (path.ends_with(".toml")) return Format::torchtitan;
  if (is_yaml(path)) {
    const Yaml yaml = parse_yaml(text, path);
    if (is_training_arguments(yaml.value)) return Format::training_arguments;
    if (is_megatron(yaml)) return Format::megatron_yaml;
    fail(ErrorKind::bad_input, path,
         "a YAML of no trainer that is known, need one of Megatron-Bridge, Megatron-LM, axolotl, LLaMA-Factory or of "
         "TrainingArguments");
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return is_megatron(text) ? Format::megatron : Format::spec;
  // Of a file that names neither, its own reader says what is wrong; a large result file is not read twice.
  const auto names = [&](std::string_view key) { return text.find(key) != std::string_view::npos; };
  if (!names("\"model_type\"") && !names("\"zero_optimization\"") && !names("\"train_") &&
      !names("\"gradient_accumulation_steps\"") && !names("\"per_device_train_batch_size\"") &&
      !names("\"model_name_or_path\""))
    return Format::spec;
  const ordered_json object = parse_python_json(std::string(text), path);
  if (object.contains("model")) return Format::spec;
  if (is_training_arguments(object)) return Format::training_arguments;
  return object.contains("model_type") ? Format::hugging_face : is_deepspeed(object) ? Format::deepspeed : Format::spec;
}

namespace {

Imported import_file(Format format, const std::string& text, const std::string& path, const ImportOptions& options) {
  switch (format) {
    case Format::hugging_face:
      return read_hugging_face(parse_python_json(text, path), path, options.without);
    case Format::megatron:
      return read_megatron(text, path, options);
    case Format::megatron_yaml:
      return read_megatron(parse_yaml(text, path), path, options);
    case Format::training_arguments: {
      const Yaml yaml = is_yaml(path) ? parse_yaml(text, path) : Yaml{parse_json(text, path), {}};
      return read_training_arguments(yaml.value, yaml.lines, path, options.without);
    }
    case Format::torchtitan:
      return read_torchtitan(text, path, options);
    case Format::deepspeed:
      return read_deepspeed(parse_json(text, path), path, options.without);
    case Format::spec:
      break;
  }
  fail(ErrorKind::bad_input, path,
       "nothing that can be imported, need a file of Hugging Face, Megatron, torchtitan or DeepSpeed. Of Hugging Face: "
       "the config.json of a model (with a model_type) or TrainingArguments (also axolotl's and LLaMA-Factory's YAML). "
       "Of Megatron-LM: a script, list of arguments or YAML; of Megatron-Bridge: a YAML; of torchtitan: a .toml; of "
       "DeepSpeed: its config");
}

}  // namespace

std::optional<Imported> with_model_of_config(std::string_view text, const std::string& path) {
  if (text.find("\"hf\"") == std::string_view::npos) return std::nullopt;
  ordered_json spec = parse_json(text, path);
  const auto model = spec.is_object() ? spec.find("model") : spec.end();
  if (model == spec.end() || !model->is_object() || !model->contains("hf")) return std::nullopt;
  const std::string where = path + ": $.model.hf";
  const std::filesystem::path config = read_string(json(model->at("hf")), where);
  const std::string file =
      (config.is_absolute() ? config : std::filesystem::path(path).parent_path() / config).string();
  const std::string content = read_text_file(file);
  if (recognise(content, file) != Format::hugging_face)
    fail(ErrorKind::bad_input, where, "got {}, need the config.json of a Hugging Face model", file);
  Imported found = read_hugging_face(parse_python_json(content, file), file, {});
  ordered_json changed = found.spec.at("model");
  if (changed.is_string()) changed = {{"preset", changed}};
  for (const auto& [key, value] : model->items())
    if (key != "hf") changed[key] = value;
  *model = changed;
  for (const auto& [key, value] : found.spec.items())
    if (!spec.contains(key)) spec[key] = value;
  found.spec = spec;
  return found;
}

Imported import_files(const std::vector<std::string>& paths, const ImportOptions& options) {
  Imported all;
  all.spec = ordered_json::object();
  bool of_deepspeed = false;
  for (const std::string& path : paths) {
    const std::string text = read_text_file(path);
    const Format format = recognise(text, path);
    of_deepspeed = of_deepspeed || format == Format::deepspeed;
    Imported one = import_file(format, text, path, options);
    for (const auto& [key, value] : one.spec.items()) all.spec[key] = value;
    for (const std::string& note : one.notes)
      all.notes.push_back(paths.size() > 1 ? fmt::format("{}: {}", path, note) : note);
  }
  const std::string where = paths.empty() ? "import" : paths.back();
  if (!all.spec.contains("model"))
    fail(ErrorKind::bad_input, where, "has no model, need the config.json of one too: mbench import config.json {}",
         where);
  all.of_trainer = true;
  if (of_deepspeed && !all.spec.contains("framework")) all.spec["framework"] = "deepspeed";
  all.spec = tidy_spec(all.spec, where + ", as a spec: $");
  return all;
}

std::optional<Imported> spec_of_file(const std::string& path, const ImportOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  const std::string text = read_text_file(path);
  if (recognise(text, path) != Format::spec) return import_files({path}, options);
  return with_model_of_config(text, path);
}

Target read_target(const std::string& name, const std::string& where) {
  if (name == "hf") return Target::hugging_face;
  if (name == "megatron") return Target::megatron;
  if (name == "megatron-bridge") return Target::megatron_bridge;
  if (name == "deepspeed") return Target::deepspeed;
  if (name == "torchtitan") return Target::torchtitan;
  fail(ErrorKind::bad_input, where, "no such trainer, got \"{}\", {}", name,
       nearest_choice(name, {"deepspeed", "hf", "megatron", "megatron-bridge", "torchtitan"}));
}

std::string export_point(const Point& point, Target target) {
  switch (target) {
    case Target::hugging_face:
      return dump_json(write_hugging_face(point));
    case Target::megatron:
      return write_megatron(point);
    case Target::megatron_bridge:
      return write_megatron_bridge(point);
    case Target::torchtitan:
      return write_torchtitan(point);
    case Target::deepspeed:
      return dump_json(write_deepspeed(point));
  }
  return "";
}

}  // namespace mbench::formats
