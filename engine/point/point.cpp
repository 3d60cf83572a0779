#include "engine/point/point.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/field_table.h"
#include "engine/point/point_builder.h"

namespace mbench {

using nlohmann::json;
using nlohmann::ordered_json;

std::int64_t Point::vocab_multiple_used() const {
  return vocab_multiple > 0 ? vocab_multiple : framework_of(framework)->keeps.vocab_multiple;
}

Point point_from_json(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of point fields", short_json(value));
  PointBuilder builder;
  for (const auto& [key, field] : value.items()) builder.set(key, field, where + "." + key);
  return builder.finish(where);
}

ordered_json point_to_json(const Point& point) {
  ordered_json out = ordered_json::object();
  out.get_ref<ordered_json::object_t&>().reserve(field_table().size());  // growing copies
  for (const Field& field : field_table()) out[field.about.key] = field.write(point);
  return out;
}

std::string point_id(const Point& point) {
  // json, not ordered_json: its keys are sorted, so the order of declaration does not count either.
  const Point plain;
  const ordered_json all = point_to_json(point), defaults = point_to_json(plain);
  json canonical = json::object();
  for (const auto& [key, value] : all.items())
    if (key != "model" && key != "strategy" && value != defaults.at(key)) canonical[key] = json(value);
  if (point.precision == plain.precision)
    canonical.erase("precision");
  else
    canonical["precision"] = std::string(name_of(point.precision));
  for (const Field& former : former_fields())
    if (former.about.part_of == "precision")
      if (auto value = former.write(point); value != former.write(plain))
        canonical[former.about.key] = json(std::move(value));
  if (const auto words = former_words(point.framework)) {
    canonical.erase("framework");
    if (words->graph != "fused") canonical["graph"] = words->graph;
    if (words->framework != "mbench") canonical["framework"] = words->framework;
    for (const auto& [name, value] : words->options) {
      const bool flag = value == "true" || value == "false";
      canonical[former_default(name) ? name : std::string(kFrameworkField) + name] =
          flag ? json(value == "true") : json(value);
    }
  }
  canonical["model"] = model_identity(point.model);
  return fmt::format("{:016x}", fnv1a(canonical.dump(-1, ' ', false, json::error_handler_t::replace)));
}

}  // namespace mbench
