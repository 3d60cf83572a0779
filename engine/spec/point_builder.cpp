#include "engine/spec/point_builder.h"

#include <limits>

#include "engine/base/json_reader.h"
#include "engine/spec/bundles.h"
#include "engine/spec/field_table.h"

namespace mbench {

using nlohmann::json;
using nlohmann::ordered_json;

void PointBuilder::set(const std::string& key, const json& value, const std::string& where) {
  set_point_field(point_, key, value, where);
  where_[key] = where;
}

void set_point_field(Point& point, const std::string& key, const json& value, const std::string& where) {
  if (const Field* field = field_named(key)) return field->read(point, value, where);
  if (key.starts_with(kMachineField)) {
    point.machine[key.substr(kMachineField.size())] =
        read_number(value, where, std::numeric_limits<double>::lowest());
    return;
  }
  fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", key, nearest_choice(key, point_keys()));
}

Point PointBuilder::finish(const std::string& where) const {
  if (!where_.contains("model"))
    fail(ErrorKind::bad_input, where, "\"model\" is missing, need the name of a preset or an object");
  Point point = point_;
  for (const Bundle& bundle : bundles()) {
    if (point.strategy != bundle.name) continue;
    const ordered_json given = point_to_json(point);
    for (const auto& [key, value] : bundle.fields.items()) {
      if (where_.contains(key) && given.at(key) != value)
        fail(ErrorKind::bad_input, where_.at(key),
             "contradicts the strategy \"{}\", got {}, need {} or no strategy", bundle.name,
             given.at(key).dump(), value.dump());
      field_named(key)->read(point, value, where);
    }
  }
  return point;
}

}  // namespace mbench
