// A set of parts in a spec: an array of their names, or the names in one text, joined by "+".
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/flags.h"
#include "engine/base/json_reader.h"

namespace mbench {

// `others`: what else the field takes, which a refusal offers before the names; `behind`: what it says behind them. Throws bad_input.
template <class Enum, std::size_t N>
Flags<Enum> read_joined_parts(const nlohmann::json& value, const std::string& where, const Choices<Enum, N>& names,
                              std::vector<std::string> others, std::string_view behind) {
  Flags<Enum> found;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      found.add(read_choice(value[i], fmt::format("{}[{}]", where, i), names));
    return found;
  }
  const std::string text = read_string(value, where);
  for (const auto& [name, part] : names) others.emplace_back(name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto known = std::find_if(names.begin(), names.end(), [&](const auto& each) { return each.first == name; });
    if (known == names.end())
      fail(ErrorKind::bad_input, where, "no such part, got {}, {}{}", short_json(value), nearest_choice(name, others),
           behind);
    found.add(known->second);
    begin = end + 1;
  }
  return found;
}

}  // namespace mbench
