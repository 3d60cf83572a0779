#include "engine/point/model_changes.h"

#include <algorithm>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/model_parts.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const ModelSpec* preset_named(const std::string& name) {
  const auto& presets = model_presets();
  const auto found = std::find_if(presets.begin(), presets.end(), [&](const ModelSpec& m) { return m.name == name; });
  return found == presets.end() ? nullptr : &*found;
}

// What is not said in `written` stands at the family's or at 0.
std::string changes(const json& written, const ModelSpec& preset) {
  const json base = model_identity(preset);
  std::set<std::string> keys;
  for (const json* object : {&base, &written})
    for (const auto& [key, value] : object->items()) keys.insert(key);
  std::string text;
  for (const std::string& key : keys) {
    if (key == "name" || key == "positions" || written.value(key, json()) == base.value(key, json())) continue;
    std::string now = "as its family's";
    if (const auto own = written.find(key); own != written.end())
      now = own->is_string() ? own->get<std::string>() : own->dump();
    text += (text.empty() ? "" : ", ") + key + " " + now;
  }
  return text;
}

std::string with_changes(const std::string& name, const json& written) {
  const ModelSpec* preset = preset_named(name);
  const std::string text = preset ? changes(written, *preset) : "";
  return text.empty() ? name : name + " (" + text + ")";
}

}  // namespace

void set_model_parts(ModelSpec& model, const std::map<std::string, json>& parts, const std::string& where) {
  json object = model_identity(model);
  object["name"] = model.name;
  for (const auto& [key, value] : parts) {
    if (key == "family" || key == "preset")
      fail(ErrorKind::bad_input, where + "." + key,
           "is no part that is set on its own, got {}, need the whole of \"model\"", short_json(value));
    object[key] = value;
  }
  if (parts.contains("hidden") && !parts.contains("ffn"))
    object.erase("ffn");  // it follows, as in an object that has a preset
  model = read_model(object, where);
}

ordered_json model_part(const ModelSpec& model, const std::string& key) {
  if (key == "name") return model.name;
  const json all = model_identity(model);
  if (const auto found = all.find(key); found != all.end()) return ordered_json(*found);
  for (const PartField& part : part_fields())
    if (part.key == key) return ordered_json(part.write(model.parts()));
  return nullptr;
}

std::string label_of(const ModelSpec& model) {
  return with_changes(model.name, model_identity(model));
}

std::string label_of_model(const ordered_json& written) {
  const std::string name = written.value("name", std::string());
  return with_changes(name, json(written));
}

}  // namespace mbench
