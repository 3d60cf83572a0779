#include "formats/hugging_face/python_json.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/base/json_reader.h"

namespace mbench::formats {

nlohmann::ordered_json parse_python_json(const std::string& text, const std::string& file) {
  std::string json;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (in_string && text[i] == '\\' && rest.size() > 1) {
      json += rest.substr(0, 2);
      ++i;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    std::string_view word;
    for (const std::string_view each : {"-Infinity", "Infinity", "NaN"})
      if (!in_string && word.empty() && rest.starts_with(each)) word = each;
    if (word.empty()) {
      json += text[i];
      continue;
    }
    json += fmt::format(R"({{"__float__": "{}"}})", word);
    i += word.size() - 1;
  }
  return parse_json(json == text ? std::string_view(text) : std::string_view(json), file);
}

}  // namespace mbench::formats
