#include "engine/point/point_builder.h"

#include <limits>

#include "engine/base/json_reader.h"
#include "engine/point/bundles.h"
#include "engine/point/field_table.h"
#include "engine/point/model_changes.h"

namespace mbench {

using nlohmann::json;
using nlohmann::ordered_json;

void PointBuilder::set(const std::string& key, const json& value, const std::string& where) {
  if (key.starts_with(kModelField)) {
    model_parts_[key.substr(kModelField.size())] = value;
    where_[key] = where;
    return;
  }
  set_point_field(point_, key, value, where);
  where_[key] = where;
  const bool whole = key == "framework" || key == "precision";
  if (const std::string of = field_of(key); !whole && (of == "framework" || of == "precision")) {
    std::erase_if(parts_, [&](const auto& part) { return part.first == key; });
    parts_.emplace_back(key, value);
  } else if (whole) {
    for (const auto& [part, choice] : parts_) set_point_field(point_, part, choice, where_.at(part));
  }
}

void set_point_field(Point& point, const std::string& key, const json& value, const std::string& where) {
  if (const Field* field = field_named(key)) return field->read(point, value, where);
  if (key.starts_with(kMachineField)) {
    point.machine[key.substr(kMachineField.size())] = read_number(value, where, std::numeric_limits<double>::lowest());
    return;
  }
  if (key.starts_with(kFrameworkField))
    return set_framework_part(point.framework, key.substr(kFrameworkField.size()), value, where);
  if (key.starts_with(kPrecisionField))
    return set_precision_part(point, key.substr(kPrecisionField.size()), value, where);
  if (key.starts_with(kModelField))
    return set_model_parts(point.model, {{key.substr(kModelField.size()), value}}, where);
  fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", key, nearest_choice(key, point_keys()));
}

ordered_json point_in_words(const Point& point) {
  ordered_json fields = point_to_json(point);
  fields["framework"] = name_of(point.framework);
  fields["precision"] = name_of(point.precision);
  for (const Field& former : former_fields()) fields[former.about.key] = former.write(point);
  return fields;
}

ordered_json point_field(const Point& point, const std::string& key) {
  if (const Field* field = field_named(key)) return field->write(point);
  if (key.starts_with(kMachineField)) {
    const auto figure = point.machine.find(key.substr(kMachineField.size()));
    return figure == point.machine.end() ? ordered_json(nullptr) : ordered_json(figure->second);
  }
  if (key.starts_with(kFrameworkField)) return framework_part(point.framework, key.substr(kFrameworkField.size()));
  if (key.starts_with(kPrecisionField)) return precision_part(point, key.substr(kPrecisionField.size()));
  if (key.starts_with(kModelField)) return model_part(point.model, key.substr(kModelField.size()));
  return nullptr;
}

Point PointBuilder::finish(const std::string& where) const {
  if (!where_.contains("model"))
    fail(ErrorKind::bad_input, where, "\"model\" is missing, need the name of a preset or an object");
  Point point = point_;
  if (!model_parts_.empty()) {
    const std::string key = std::string(kModelField) + model_parts_.begin()->first;
    std::string place = where_.at(key);  // "spec.json: $.model.kv_heads", of the model
    if (place.ends_with("." + key)) place.resize(place.size() - key.size() + kModelField.size() - 1);
    set_model_parts(point.model, model_parts_, place);
  }
  for (const Bundle& bundle : bundles()) {
    if (point.strategy != bundle.name) continue;
    const ordered_json given = point_to_json(point);
    for (const auto& [key, value] : bundle.fields.items()) {
      if (where_.contains(key) && given.at(key) != value)
        fail(ErrorKind::bad_input, where_.at(key), "contradicts the strategy \"{}\", got {}, need {} or no strategy",
             bundle.name, given.at(key).dump(), value.dump());
      field_named(key)->read(point, value, where);
    }
  }
  return point;
}

}  // namespace mbench
