#include "engine/point/abilities.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/field_table.h"
#include "engine/point/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;

json value_of(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : json(text);
}

}  // namespace

void check(const Abilities& can, const std::string& where) {
  for (const auto& [field, values] : can.values)
    for (std::size_t i = 0; i < values.size(); ++i) {
      Point point;
      set_point_field(point, field, value_of(values[i]), fmt::format("{}.{}[{}]", where, field, i));
    }
}

bool has(const Abilities& can, const std::string& field, const json& value) {
  return can.has(field, word_of(value));
}

bool lists(const Abilities& can, const std::string& field, std::string_view value) {
  return can.values.contains(field) && can.has(field, value);
}

std::string lacking(const Abilities& can, const Point& point) {
  std::string all;
  for (const auto& [field, values] : can.values) {
    const Field* row = field_named(field);
    if (!row) continue;  // check() refuses it
    json value = row->write(point);
    if (value.is_object() && value.contains("preset")) value = json(value.at("preset"));
    if (!has(can, field, value)) all += fmt::format("{}{} {}", all.empty() ? "" : ", ", field, word_of(value));
  }
  return all;
}

}  // namespace mbench
