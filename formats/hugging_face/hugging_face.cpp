#include "formats/hugging_face/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/table/flat.h"
#include "formats/table/reading.h"
#include "formats/table/writing.h"

namespace mbench::hugging_face_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOfConfig[] = {"model", "precision.preset", "attention", "dropout"};  // what a config can say

const Table& table_of(const ordered_json& config, const std::string& file) {
  const std::string where = file + ": $.model_type";
  if (!config.contains("model_type")) fail(ErrorKind::bad_input, where, "missing, need the model's type");
  const std::string type = read_string(json(config.at("model_type")), where);
  std::vector<std::string> names;
  for (const Table& table : hugging_face_tables())
    for (const std::string& each : table.types) {
      if (each == type) return table;
      if (table.lacks.empty()) names.push_back(each);
    }
  std::sort(names.begin(), names.end());
  // Types whose names are alike (olmo, olmoe) are other models: none is suggested.
  fail(ErrorKind::unsupported, where, "no such type of model is known, got \"{}\", need one of {}", type,
       fmt::join(names, ", "));
}

// Of a model of several kinds the language model: what stands in text_config. The towers beside it must be named in `without`.
ordered_json language_model(const ordered_json& config, const std::string& file,
                            const std::vector<std::string>& without) {
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return config;
  std::vector<std::string> towers;
  for (const auto& [key, value] : config.items())
    if (key.ends_with("_config") && key != "text_config" && key != "quantization_config" && value.is_object() &&
        std::find(without.begin(), without.end(), key) == without.end())
      towers.push_back(key);
  if (!towers.empty())
    fail(ErrorKind::unsupported, file + ": $." + towers.front(),
         "what mbench has no part for: {} with a language model; need mbench import {}{}, which takes only the "
         "language model, or its text_config as a file",
         fmt::join(towers, ", "), "--without ", fmt::join(towers, " --without "));
  ordered_json model = *text;
  // These are said of the whole model, and mean its parts.
  for (const char* of_all :
       {"torch_dtype", "dtype", "tie_word_embeddings", "attn_implementation", "_attn_implementation"})
    if (const auto said = config.find(of_all); said != config.end() && !model.contains(of_all)) model[of_all] = *said;
  // A class that labels samples is another model, and no language model of it.
  if (const auto classes = config.find("architectures"); classes != config.end()) model["architectures"] = *classes;
  return model;
}

// The model's name: that of its repository, its folder, or its file.
std::string name_of_model(const ordered_json& config, const std::string& file) {
  std::string name;
  if (const auto found = config.find("_name_or_path"); found != config.end() && found->is_string())
    name = fs::path(found->get<std::string>()).filename().string();
  const fs::path path = fs::absolute(file).lexically_normal();
  if (name.empty() || name == "." || name == "..")
    name = path.filename() == "config.json" ? path.parent_path().filename().string() : path.stem().string();
  return name.empty() ? "custom" : name;
}

std::vector<Item> items_of(const ordered_json& config, const std::string& file) {
  std::vector<Item> items;
  for (const auto& [key, value] : config.items())
    if (key != "model_type") items.push_back({key, json(value), file + ": $." + key});
  return items;
}

// Whether attention op by op was asked for where some layer has a window.
bool needs_flash(const ordered_json& spec) {
  if (spec.value("attention", "flash") != "core") return false;
  const auto has_window = [](const ordered_json& parts) {
    const auto window = parts.find("window");
    return window != parts.end() && window->is_number() && *window != 0;
  };
  const ordered_json& model = spec.at("model");
  const auto layers = model.find("layers_of");
  return has_window(model) || (layers != model.end() && std::any_of(layers->begin(), layers->end(), has_window));
}

ordered_json assemble(const Table& table, const Writing& written) {
  ordered_json out = {{"model_type", table.types.front()}};
  for (const auto& [key, value] : written.items()) out[key] = ordered_json(value);
  return out;
}

// What the point that the config reads as has otherwise.
std::vector<std::string> lost(const ordered_json& flat, const ordered_json& config) {
  const Point again = point_from_json(json(read_hugging_face(config, "config.json", {}).spec), "config.json");
  const ordered_json other = flat_point(again);
  std::vector<std::string> all;
  for (const char* field : kOfConfig)
    for (const std::string& each : differences(*find_field_of(flat, field), *find_field_of(other, field), field))
      all.push_back(each);
  return all;
}

}  // namespace

const std::vector<Table>& hugging_face_tables() {
  static const std::vector<Table> tables = [] {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const auto& [name, text] : hugging_face_files::files()) files.emplace_back(name, text);
    std::vector<Table> all;
    for (const auto& [name, text] : files) {
      if (name == "base") continue;
      all.push_back(read_table(name, files));
      all.back().rules.emplace_back("labels");
    }
    return all;
  }();
  return tables;
}

Imported read_hugging_face(const ordered_json& given, const std::string& file,
                           const std::vector<std::string>& without) {
  const ordered_json config = language_model(given, file, without);
  const Table& table = table_of(config, file);
  std::vector<std::string> minded = without;
  if (table.rows.empty()) minded.clear();  // there is nothing else to go by
  Reading reading(table, items_of(config, file), file, minded);
  reading.read();
  ordered_json spec = {{"name", ""}, {"model", {{"name", name_of_model(given, file)}}}};
  for (const auto& [key, value] : reading.spec().items())
    if (key == "model")
      spec[key].update(value);
    else
      spec[key] = value;
  spec.erase("name");
  const ordered_json* positions = find_field_of(spec, "model.positions");
  if (positions && positions->is_number() && *positions < TrainingSpec().seq) spec["seq"] = *positions;
  spec["vocab_multiple"] = 1;  // a table has as many rows as there are words
  std::vector<std::string> notes = reading.notes();
  if (needs_flash(spec)) {
    spec["attention"] = "flash";
    notes.push_back("attn_implementation eager is read as flash: a window is part of fused attention here");
  }
  const auto says = [&](const char* key) { return config.contains(key); };
  const ordered_json* precision = find_field_of(spec, "precision.preset");
  if (precision && !says("torch_dtype") && !says("dtype") && !says("precision"))
    notes.push_back(fmt::format("no torch_dtype is said: precision {}; --set precision=bf16 has another",
                                word_of(json(*precision))));
  if (given.contains("text_config") && given.at("text_config").is_object())
    notes.insert(notes.begin(), "only the language model: text_config");
  return {tidy_spec(spec, file + ", as a spec: $"), notes};
}

ordered_json write_hugging_face(const Point& point) {
  const ordered_json flat = flat_point(point);
  std::vector<std::string> nearest;
  const Table* near = nullptr;
  // Types that are usually read come last: what says a model is read again, so any type that says all of it will do.
  for (const bool usually_read : {false, true})
    for (const Table& table : hugging_face_tables()) {
      if (!table.lacks.empty() || table.rows.empty() || table.reads_only != usually_read) continue;
      Writing writing(table, flat);
      writing.write();
      std::vector<std::string> faults = writing.faults();
      if (faults.empty()) {
        const ordered_json config = assemble(table, writing);
        faults = lost(flat, config);
        if (faults.empty()) return config;
      }
      if (!usually_read && (!near || faults.size() < nearest.size())) nearest = faults, near = &table;
    }
  fail(ErrorKind::unsupported, "a Hugging Face config", "no model_type says {}, got {}; the nearest is {}",
       point.model.name, fmt::join(nearest, "; "), near->types.front());
}

}  // namespace mbench::formats
