#include "engine/point/framework_spec.h"

#include <algorithm>
#include <mutex>
#include <tuple>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/abilities.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct FormerOption {
  std::string_view name;
  const char* otherwise;
};
constexpr FormerOption kFormerOptions[] = {{"cross_entropy_fusion", "te"}, {"gradient_accumulation_fusion", "true"},
                                           {"grouped_experts", "true"},    {"mask_in_batch", "true"},
                                           {"transformer_engine", "true"}, {"rope_fusion", "true"},
                                           {"deterministic", "false"}};

ordered_json json_of(const std::string& value) {
  if (value == "true" || value == "false") return value == "true";
  return value;
}

std::string read_name(const json& value, const std::string& where) {
  const std::string name = read_string(value, where);
  if (!is_path(name) && !find_builtin(name))
    fail(ErrorKind::bad_input, where, "no such framework, got \"{}\", {} (or the path of a JSON file)", name,
         nearest_choice(name, framework_names()));
  return name;
}

const FrameworkFile* with_former_name(std::string_view name) {
  for (const FrameworkFile& file : builtin_frameworks())
    if (file.formerly().framework == name) return &file;
  return nullptr;
}

void set_option(FrameworkSpec& spec, const std::string& name, const json& value, const std::string& where) {
  const auto& known = all_framework_options();
  const auto option =
      std::find_if(known.begin(), known.end(), [&](const FrameworkOption& o) { return o.name == name; });
  if (option == known.end()) {
    std::vector<std::string> names = {"preset", "host"};
    for (const FrameworkOption& o : known) names.push_back(o.name);
    fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", name, nearest_choice(name, names));
  }
  const std::string text = word_of(value);
  if (!option->find(text) || value.is_string() == (text == "true" || text == "false")) {
    std::vector<std::string> names;
    for (const FrameworkChoice& choice : option->choices) names.push_back(choice.name);
    fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value), nearest_choice(text, names));
  }
  spec.options[name] = text;
}

// What an option is where nothing is said of it, under that preset.
std::string default_under(const FrameworkFile& preset, const std::string& option) {
  if (const auto given = preset.formerly().options.find(option); given != preset.formerly().options.end())
    return given->second;
  if (const char* former = former_default(option)) return former;
  const FrameworkOption* own = preset.option(option);
  return own ? own->otherwise : "";
}

// Two spellings of one framework are one.
FrameworkSpec canonical(FrameworkSpec spec, const std::string& where) {
  if (spec.host == spec.preset) spec.host.clear();
  const auto words = former_words(spec);
  return words ? from_former(*words, where) : spec;
}

}  // namespace

const char* former_default(std::string_view option) {
  for (const FormerOption& former : kFormerOptions)
    if (former.name == option) return former.otherwise;
  return nullptr;
}

namespace {

std::optional<FormerWords> made_words(const FrameworkSpec& spec) {
  FormerWords words;
  const FrameworkFile* preset = find_builtin(spec.preset);
  if (!preset) {
    if (!spec.host.empty() || !spec.options.empty()) return std::nullopt;
    words.framework = spec.preset;
    return words;
  }
  const FrameworkFile* host = spec.host.empty() ? preset : find_builtin(spec.host);
  words.graph = preset->formerly().graph;
  words.framework = host ? host->formerly().framework : spec.host;
  words.options = preset->formerly().options;
  for (const auto& [name, value] : spec.options) words.options[name] = value;
  std::erase_if(words.options, [&](const auto& option) {
    const char* former = former_default(option.first);
    return option.second == (former ? former : default_under(*preset, option.first));
  });
  return words;
}

}  // namespace

std::optional<FormerWords> former_words(const FrameworkSpec& spec) {
  // Thousands of rows of a report have the same one.
  thread_local FrameworkSpec last;
  thread_local std::optional<FormerWords> words = FormerWords();
  if (last == spec) return words;
  words = made_words(spec);
  last = spec;
  return words;
}

FrameworkSpec from_former(const FormerWords& words, const std::string& where) {
  const FrameworkFile* best = nullptr;
  std::map<std::string, std::string> changed;
  std::size_t least = 0;
  if (is_path(words.framework) && words.graph == "fused" && words.options.empty()) return {.preset = words.framework};
  for (const FrameworkFile& file : builtin_frameworks()) {
    if (file.formerly().graph != words.graph) continue;
    std::map<std::string, std::string> wanted = words.options;
    for (const auto& [name, value] : file.formerly().options)
      if (const char* former = former_default(name)) wanted.emplace(name, former);
    std::erase_if(wanted, [&](const auto& option) { return option.second == default_under(file, option.first); });
    // The fewest changes; another's host is a larger one, and an option that the framework does not have the largest.
    std::size_t cost = wanted.size() + (file.formerly().framework == words.framework ? 0 : 10);
    for (const auto& [name, value] : wanted)
      if (const FrameworkOption* option = file.option(name); !option || !option->find(value)) cost += 100;
    if (best && cost >= least) continue;
    best = &file, least = cost, changed = std::move(wanted);
  }
  if (!best) fail(ErrorKind::bad_input, where, "no such graph, got \"{}\"", words.graph);
  FrameworkSpec spec{best->name(), "", std::move(changed)};
  if (best->formerly().framework == words.framework) return spec;
  const FrameworkFile* host = with_former_name(words.framework);
  spec.host = host ? host->name() : read_name(words.framework, where);
  return spec;
}

namespace {

// "megatron-core, host mbench, rope_fusion false" as an object.
json object_of_line(const std::string& line, const std::string& where) {
  json object = json::object();
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(", ", begin), line.size());
    const std::string part = line.substr(begin, end - begin);
    const std::size_t space = part.find(' ');
    if (begin > 0 && space == std::string::npos)
      fail(ErrorKind::bad_input, where, "got \"{}\" in \"{}\", need an option and its value", part, line);
    if (begin == 0)
      object["preset"] = part;
    else
      object[part.substr(0, space)] = json_of(part.substr(space + 1));
    begin = end + 2;
  }
  return object;
}

}  // namespace

FrameworkSpec read_framework(const json& value, const std::string& where, const FrameworkSpec& before) {
  if (value.is_string()) {
    const std::string name = value;
    if (name.find(", ") != std::string::npos) return read_framework(object_of_line(name, where), where);
    if (is_path(name) || find_builtin(name)) return {.preset = name};
    if (const FrameworkFile* host = with_former_name(name)) {
      auto words = former_words(before);
      if (!words) words.emplace();
      words->framework = host->formerly().framework;
      return from_former(*words, where);
    }
    read_name(value, where);
  }
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need a framework's name or an object", short_json(value));
  FrameworkSpec spec;
  for (const char* part : {"preset", "host"})
    if (const auto given = value.find(part); given != value.end())
      (part == std::string_view("host") ? spec.host : spec.preset) = read_name(*given, where + "." + part);
  for (const auto& [key, choice] : value.items())
    if (key != "preset" && key != "host") set_option(spec, key, choice, where + "." + key);
  return canonical(std::move(spec), where);
}

void set_framework_part(FrameworkSpec& spec, const std::string& part, const json& value, const std::string& where) {
  if (part == "preset")
    spec.preset = read_name(value, where);
  else if (part == "host")
    spec.host = read_name(value, where);
  else
    set_option(spec, part, value, where);
  spec = canonical(std::move(spec), where);
}

ordered_json framework_part(const FrameworkSpec& spec, const std::string& part) {
  if (part == "preset") return spec.preset;
  if (part == "host") return spec.host.empty() ? spec.preset : spec.host;
  if (const auto chosen = spec.options.find(part); chosen != spec.options.end()) return json_of(chosen->second);
  const FrameworkFile* preset = find_builtin(spec.preset);
  const FrameworkOption* option = preset ? preset->option(part) : nullptr;
  return option ? json_of(option->otherwise) : ordered_json(nullptr);
}

ordered_json write_framework(const FrameworkSpec& spec) {
  if (spec.host.empty() && spec.options.empty()) return spec.preset;
  ordered_json object = {{"preset", spec.preset}};
  if (!spec.host.empty()) object["host"] = spec.host;
  for (const auto& [name, value] : spec.options) object[name] = json_of(value);
  return object;
}

ordered_json framework_schema() {
  ordered_json properties = {
      {"preset",
       {{"type", "string"},
        {"description",
         "Whose tensors a step keeps and whose ops it fuses: the name of a framework, or the path of its file."}}},
      {"host",
       {{"type", "string"},
        {"description", "Whose host costs and kernels a simulation charges; by default the preset's."}}}};
  for (const FrameworkOption& option : all_framework_options()) {
    ordered_json each = ordered_json::array();
    for (const FrameworkChoice& choice : option.choices)
      each.push_back({{"const", json_of(choice.name)}, {"description", choice.doc}});
    properties[option.name] = {{"description", option.doc}, {"oneOf", std::move(each)}};
  }
  return {
      {"anyOf", ordered_json::array(
                    {{{"type", "string"}},
                     {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}}})}};
}

std::string name_of(const FrameworkSpec& spec) {
  std::string text = spec.preset;
  if (!spec.host.empty()) text += ", host " + spec.host;
  for (const auto& [name, value] : spec.options) text += fmt::format(", {} {}", name, value);
  return text;
}

std::shared_ptr<const Framework> framework_of(const FrameworkSpec& spec, const std::string& where) {
  using Key = std::tuple<std::string, std::string, std::map<std::string, std::string>>;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const Framework>> known;
  thread_local FrameworkSpec last;
  thread_local std::shared_ptr<const Framework> last_made;  // a search asks for the same one a million times
  if (last_made && last == spec) return last_made;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Framework>& made = known[Key(spec.preset, spec.host, spec.options)];
  if (!made) {
    const FrameworkFile preset = load_framework(spec.preset, where);
    const FrameworkFile host = spec.host.empty() ? preset : load_framework(spec.host, where + ".host");
    Framework framework = combined(preset, host, spec.options);
    check(framework.can, fmt::format("framework {}: $.can", host.name()));
    made = std::make_shared<const Framework>(std::move(framework));
  }
  last = spec, last_made = made;
  return made;
}

}  // namespace mbench
