#include "sweeps/spec/options.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "engine/point/model_changes.h"
#include "engine/point/pipeline_layout.h"
#include "engine/point/point_builder.h"

namespace mbench::sweeps {
namespace {

using nlohmann::ordered_json;

void require_point_field(const std::string& field, const std::string& where) {
  const auto& keys = point_keys();
  if (field == "device") fail(ErrorKind::bad_input, where, "the device is no field of a spec, need --on");
  if (is_field(field)) return;  // a figure of the machine is looked for in its file, which is not known here
  if (std::find(keys.begin(), keys.end(), field) == keys.end())
    fail(ErrorKind::bad_input, where, "unknown field, got \"{}\", {}", field, nearest_choice(field, keys));
}

// The entries of a zip without one of its columns; what then stands twice stands once.
ordered_json without_column(const ordered_json& entries, std::size_t column, bool one_left) {
  ordered_json out = ordered_json::array();
  for (const ordered_json& entry : entries) {
    ordered_json rest = entry;
    if (entry.is_array() && column < entry.size()) {
      rest.erase(column);
      if (one_left && rest.size() == 1) rest = ordered_json(rest[0]);
    }
    if (std::find(out.begin(), out.end(), rest) == out.end()) out.push_back(rest);
  }
  return out;
}

std::string joined(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) text += (text.empty() ? "" : ",") + field;
  return text;
}

// Takes a field out of `sweep`, whether it stands alone or in a zip.
void remove_from_sweep(ordered_json& sweep, const std::string& field) {
  ordered_json left = ordered_json::object();
  for (const auto& [key, values] : sweep.items()) {
    std::vector<std::string> fields = split_fields(key);
    const auto found = std::find(fields.begin(), fields.end(), field);
    if (found == fields.end()) {
      left[key] = values;
    } else if (fields.size() > 1 && values.is_array()) {
      const auto column = static_cast<std::size_t>(found - fields.begin());
      fields.erase(found);
      left[joined(fields)] = without_column(values, column, fields.size() == 1);
    }
  }
  sweep = left;
}

}  // namespace

std::vector<std::string> split_fields(const std::string& joined) {
  std::vector<std::string> fields;
  std::size_t begin = 0;
  while (begin <= joined.size()) {
    const std::size_t end = std::min(joined.find(',', begin), joined.size());
    std::string field = joined.substr(begin, end - begin);
    const std::size_t first = field.find_first_not_of(' ');
    fields.push_back(first == std::string::npos ? "" : field.substr(first, field.find_last_not_of(' ') + 1 - first));
    begin = end + 1;
  }
  return fields;
}

Assignment parse_assignment(const std::string& text, const std::string& option) {
  const std::string where = option + " " + text;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ErrorKind::bad_input, where, "no assignment, got \"{}\", need field=value", text);
  Assignment a;
  a.text = text;
  a.fields = split_fields(text.substr(0, equals));
  for (const std::string& field : a.fields) require_point_field(field, where);
  const std::string value = text.substr(equals + 1);
  // JSON as a spec has it, with what is refused there; anything else is a text.
  a.value = ordered_json::accept(value) ? parse_json(value, where) : ordered_json(value);
  return a;
}

void apply_set(ordered_json& spec, const Assignment& a, const std::string& where) {
  const bool one_layout = a.fields.size() == 1 && a.fields[0] == "pipeline_layout" && is_layout_list(a.value);
  const bool sweeps = a.value.is_array() && !one_layout;
  if (a.fields.size() > 1 && !sweeps)
    fail(ErrorKind::bad_input, where, "fields that are zipped need an array, such as \"{}\"=[[1,2],[2,1]]",
         joined(a.fields));
  if (!spec.contains("sweep")) spec["sweep"] = ordered_json::object();
  ordered_json& sweep = spec["sweep"];
  if (!sweep.is_object()) return;  // refused when the sweep is read
  for (const std::string& field : a.fields) {
    spec.erase(field);
    if (!sweeps || !spec["sweep"].contains(joined(a.fields))) remove_from_sweep(spec["sweep"], field);
  }
  if (sweeps)
    spec["sweep"][joined(a.fields)] = a.value;  // at its old place, if the key stood there
  else
    spec[a.fields[0]] = a.value;
}

Filter::Filter(const std::vector<std::string>& options) {
  for (const std::string& text : options) {
    const Assignment a = parse_assignment(text, "--filter");
    const std::string where = "--filter " + text;
    if (a.fields.size() > 1) fail(ErrorKind::bad_input, where, "several fields, need one filter for each");
    auto wanted = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.field == a.fields[0]; });
    if (wanted == wanted_.end()) wanted = wanted_.insert(wanted_.end(), Wanted{a.fields[0], {}, {}});
    if (a.fields[0].starts_with(kModelField)) {  // no other model need be able to have it
      wanted->parts.push_back(a.value);
      continue;
    }
    // A point that has the value, so that "2GiB" and 2147483648, or "fsdp" and 3, are the same.
    PointBuilder builder;
    builder.set("model", "gpt-bytes-tiny", where);
    builder.set(a.fields[0], nlohmann::json(a.value), where);
    wanted->values.push_back(builder.finish(where));
  }
}

bool Filter::keeps(const Point& point) const {
  return std::all_of(wanted_.begin(), wanted_.end(), [&](const Wanted& wanted) {
    if (!wanted.parts.empty())
      return std::find(wanted.parts.begin(), wanted.parts.end(), point_field(point, wanted.field)) !=
             wanted.parts.end();
    return std::any_of(wanted.values.begin(), wanted.values.end(), [&](const Point& value) {
      // By name: a preset with one field changed is still asked for by the preset's name.
      if (wanted.field == "model") return value.model.name == point.model.name;
      // A strategy is the two fields it bundles, named or not.
      if (wanted.field == "strategy")
        return value.sequence_parallel == point.sequence_parallel && value.recompute == point.recompute;
      if (wanted.field.starts_with(kMachineField)) {
        const auto figure = point.machine.find(wanted.field.substr(kMachineField.size()));
        return figure != point.machine.end() && figure->second == value.machine.begin()->second;
      }
      if (wanted.field == "precision" && point_field(value, wanted.field).is_string())
        return value.precision == point.precision;
      return point_field(value, wanted.field) == point_field(point, wanted.field);
    });
  });
}

}  // namespace mbench::sweeps
