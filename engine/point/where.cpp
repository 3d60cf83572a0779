#include "engine/point/where.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/point/bundles.h"
#include "engine/point/field_table.h"
#include "engine/point/point_builder.h"

namespace mbench {

using nlohmann::json;
using nlohmann::ordered_json;

Where read_where(const json& value, const std::string& path) {
  Where out;
  if (!value.is_object())
    fail(ErrorKind::bad_input, path, "wrong type, got {}, need an object of fields and values", short_json(value));
  for (const auto& [field, wanted] : value.items()) {
    const std::string place = path + "." + field;
    if (field == "device") fail(ErrorKind::bad_input, place, "the device is no field of a spec, need --on");
    if (field == "model" && wanted.is_string()) {
      find_preset(wanted.get<std::string>(), place);
      out.emplace_back(field, wanted);
      continue;
    }
    PointBuilder builder;
    builder.set("model", "gpt-bytes-tiny", place);
    builder.set(field, wanted, place);
    const ordered_json fields = point_in_words(builder.finish(place));
    if (field == "strategy")  // is the fields it bundles, named or not
      for (const std::string& part : bundled_keys()) out.emplace_back(part, fields.at(part));
    else if (field == "precision" && wanted.is_object()) {
      out.emplace_back(field, fields.at(field));
      for (const Field& former : former_fields())
        if (former.about.part_of == field) out.emplace_back(former.about.key, fields.at(former.about.key));
    } else
      out.emplace_back(field, fields.contains(field) ? fields.at(field) : point_field(builder.finish(place), field));
  }
  return out;
}

bool picks(const Where& where, const ordered_json& fields, const std::string& model_name) {
  return std::all_of(where.begin(), where.end(), [&](const auto& term) {
    if (term.first == "model" && term.second.is_string()) return term.second == model_name;
    return fields.at(term.first) == term.second;
  });
}

}  // namespace mbench
