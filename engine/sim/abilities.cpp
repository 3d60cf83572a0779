#include "engine/sim/abilities.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/spec/point.h"
#include "engine/spec/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Abilities Abilities::from_json(const json& object, const std::string& where) {
  if (!object.is_object()) fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of fields and lists of their values", short_json(object));
  Abilities abilities;
  for (const auto& [field, values] : object.items()) {
    const std::string path = where + "." + field;
    if (!values.is_array() || values.empty())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need a list of values of this field", short_json(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      Point point;
      set_point_field(point, field, values[i], fmt::format("{}[{}]", path, i));
      abilities.values_[field].insert(text_of(json(point_to_json(point).at(field))));
    }
  }
  return abilities;
}

bool Abilities::has(const std::string& field, const json& value) const {
  const auto known = values_.find(field);
  if (known == values_.end()) return true;
  const std::string text = text_of(value);
  if (known->second.contains(text)) return true;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    if (!known->second.contains(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

std::string Abilities::lacks(const Point& point) const {
  if (values_.empty()) return "";
  const nlohmann::ordered_json fields = point_to_json(point);
  std::string lacking;
  for (const auto& [field, values] : values_)
    if (const json value = fields.at(field); !has(field, value))
      lacking += fmt::format("{}{} {}", lacking.empty() ? "" : ", ", field, text_of(value));
  return lacking;
}

}  // namespace mbench
