// Trainers' files as a spec, and a point as such files. They are a Hugging Face config.json, a Megatron-LM script or YAML, a torchtitan
// TOML, a DeepSpeed config, or TrainingArguments. Each trainer is a folder with tables (table/row.h) that are read in both directions.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/import_options.h"

namespace mbench {
struct Point;
}

namespace mbench::formats {

enum class Format { spec, hugging_face, megatron, megatron_yaml, torchtitan, deepspeed, training_arguments };
std::string_view name_of(Format format);  // for messages: "a Hugging Face config"

struct Imported {
  nlohmann::ordered_json spec;     // as a file of configs/ is
  std::vector<std::string> notes;  // what was left out or assumed, a line each
  bool of_trainer = false;         // from what a trainer is given, which says its layout; not from a spec
};

// The format of a file's content. It is a spec where it is nothing else; the reader of specs then reports what is wrong with it.
Format recognise(std::string_view text, const std::string& path);

// Merges several files (a model's config and a run's); a later one overrides those before it. Throws bad_input, or unsupported naming
// every key that mbench does not model.
Imported import_files(const std::vector<std::string>& paths, const ImportOptions& options = {});

// A spec whose model is {"hf": PATH, ...}, with the model of that config.json, changed by what else the object says. PATH is from the
// spec's folder. The precision, attention and dropout of the config.json are the spec's, unless it has its own. Nothing for other specs.
std::optional<Imported> with_model_of_config(std::string_view text, const std::string& path);

// The spec in a file that is given as a SPEC but is no plain spec. It is a trainer's file, or a spec with the model of a config.json.
// Nothing for a plain spec, and for a missing file; the reader of specs reports that.
std::optional<Imported> spec_of_file(const std::string& path, const ImportOptions& options = {});

// The trainer's files that run the point: a script, or the config of its model.
enum class Target { hugging_face, megatron, megatron_bridge, torchtitan, deepspeed };
Target read_target(const std::string& name, const std::string& where);

// Throws unsupported naming every field that the target cannot say. What is written is read again first, and is the same point.
std::string export_point(const Point& point, Target target);

}  // namespace mbench::formats
