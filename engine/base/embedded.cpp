#include "engine/base/embedded.h"

#include "engine/base/json_reader.h"

namespace mbench {

std::vector<std::string> names_of(const EmbeddedFiles& files) {
  std::vector<std::string> names;
  for (const auto& [name, text] : files) names.push_back(name);
  return names;
}

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

std::pair<nlohmann::ordered_json, std::string> load_file(const EmbeddedFiles& files, std::string_view kind,
                                                         const std::string& name, const std::string& where) {
  if (is_path(name)) return {parse_json(read_text_file(name), name), name};
  const auto found = files.find(name);
  if (found == files.end())
    fail(ErrorKind::bad_input, where, "no such {}, got \"{}\", {} (or the path of a JSON file)", kind, name,
         nearest_choice(name, names_of(files)));
  const std::string file = fmt::format("built-in {} {}", kind, name);
  return {parse_json(found->second, file), file};
}

}  // namespace mbench
