#include "reports/record.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/flags.h"

namespace mbench {
namespace {

using Json = nlohmann::ordered_json;

// The value of a dotted name without the stand-ins for objects; nullptr if the path leads nowhere.
const Json* walk(const Json& root, std::string_view name) {
  const Json* at = &root;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string key(name.substr(0, dot));
    if (at->is_array()) {
      if (at->empty()) return nullptr;
      if (key == "first")
        at = &at->front();
      else if (key == "last")
        at = &at->back();
      else
        return nullptr;
    } else {
      if (!at->is_object()) return nullptr;
      const auto it = at->find(key);
      if (it == at->end()) return nullptr;
      at = &*it;
    }
    if (dot == std::string_view::npos) return at;
    name.remove_prefix(dot + 1);
  }
}

// What `root` may be followed by, or the names without a dot if it is empty.
std::vector<std::string> choices_below(const std::vector<Record>& records, std::string_view root) {
  std::set<std::string> names;
  for (const Record& record : records) {
    const Json* at = root.empty() ? &record.json() : walk(record.json(), root);
    const std::string prefix = root.empty() ? "" : fmt::format("{}.", root);
    if (at && at->is_object())
      for (const auto& [key, value] : at->items()) names.insert(prefix + key);
    if (at && at->is_array())
      for (const char* end : {"first", "last", "size"}) names.insert(prefix + end);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> model_choices(const std::vector<Record>& records) {
  std::vector<std::string> names;
  const Json sizes = records.front().model();
  for (const auto& [key, value] : sizes.items()) names.push_back("model." + key);
  return names;
}

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  double x = 0, y = 0;  // "0.10" matches 0.1
  const auto [ea, ra] = std::from_chars(a.data(), a.data() + a.size(), x);
  const auto [eb, rb] = std::from_chars(b.data(), b.data() + b.size(), y);
  return ra == std::errc{} && rb == std::errc{} && ea == a.data() + a.size() && eb == b.data() + b.size() &&
         x == y;
}

// What is said beside the row of a point: its reason, and of a measured one what disturbed the measurement.
std::string reason_of(const PointResult& result) {
  std::string text = result.reason;
  if (result.outcome != Outcome::ok || result.simulated || !result.iteration_ms) return text;
  for (const Flag flag : flags_of(result.iteration_ms->samples))
    text += (text.empty() ? "" : "; ") + text_of(flag);
  return text;
}

}  // namespace

Record::Record(const PointResult& result)
    : json_(result_to_json(result)),
      model_(result.point.model),
      outcome_(result.outcome),
      simulated_(result.simulated),
      reason_(reason_of(result)) {
  // One sample has no spread; that the record's number says 0 is no measurement.
  if (result.iteration_ms && result.iteration_ms->samples.size() < 2)
    for (const char* metric : {"iteration_ms", "samples_per_s"})
      if (json_[metric].is_object()) json_[metric]["stddev"] = nullptr;
}

Json Record::model() const {
  Point unnamed;  // without a preset's name, so that the sizes are written out
  unnamed.model = model_;
  unnamed.model.name.clear();
  Json sizes = point_to_json(unnamed).at("model");
  sizes["name"] = model_.name;
  return sizes;
}

Json Record::value(std::string_view name) const {
  if (name.size() > 5 && name.substr(name.size() - 5) == ".size") {
    const Json* array = walk(json_, name.substr(0, name.size() - 5));
    if (array && array->is_array()) return array->size();
  }
  if (name.substr(0, 6) == "model.") {
    const Json sizes = model();
    const Json* found = walk(sizes, name.substr(6));
    return found ? *found : Json(nullptr);
  }
  const Json* found = walk(json_, name);
  if (!found) return nullptr;
  if (found->is_object() && found->contains("mean")) return found->at("mean");
  return *found;
}

std::string Record::text(std::string_view name) const {
  return text_of(value(name));
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "n/a";
  if (value.is_string())
    return value.get_ref<const std::string&>().empty() ? "none" : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_object()) {
    if (const auto name = value.find("name"); name != value.end() && name->is_string() && *name != "custom")
      return name->get<std::string>();
    std::string text;
    for (const auto& [key, item] : value.items())
      if (key != "name") text += (text.empty() ? "" : ", ") + key + "=" + text_of(item);
    return text.empty() ? "none" : text;
  }
  return value.dump();
}

std::vector<Record> records_of(const ResultFile& file) {
  std::vector<Record> records;
  records.reserve(file.points.size());
  for (const PointResult& result : file.points) records.emplace_back(result);
  return records;
}

void require_name(const std::vector<Record>& records, std::string_view name, std::string_view where) {
  if (records.empty()) return;
  const std::string_view root = name.substr(0, name.find('.'));
  bool root_known = false, root_has_value = false;
  for (const Record& record : records) {
    if (walk(record.json(), name)) return;
    if (!record.value(name).is_null()) return;  // array sizes
    const Json* top = walk(record.json(), root);
    root_known = root_known || top != nullptr;
    root_has_value = root_has_value || (top && !top->is_null() && !(top->is_array() && top->empty()));
  }
  // A variable of env that no point sets, or a part of a metric that no point has, is a null and no mistake.
  if (root_known && name != root && (root == "env" || !root_has_value)) return;
  std::vector<std::string> choices;
  if (name != root) choices = root == "model" ? model_choices(records) : choices_below(records, root);
  if (choices.empty()) choices = choices_below(records, "");
  fail(ErrorKind::bad_input, where, "no field or metric of that name, got \"{}\", {}", name,
       nearest_choice(name, choices));
}

std::vector<std::string> swept_fields(const Json& spec, const std::vector<const Record*>& records) {
  const auto differs = [&](const std::string& field) {
    const Json first = records.empty() ? Json(nullptr) : records.front()->value(field);
    return std::any_of(records.begin(), records.end(),
                       [&](const Record* r) { return r->value(field) != first; });
  };
  std::vector<std::string> fields;
  if (spec.is_object() && spec.contains("sweep") && spec["sweep"].is_object()) {
    for (const auto& [key, values] : spec["sweep"].items()) {
      std::size_t start = 0;
      while (start <= key.size()) {
        const std::size_t comma = std::min(key.find(',', start), key.size());
        std::string field = key.substr(start, comma - start);
        field.erase(0, field.find_first_not_of(' '));
        field.erase(field.find_last_not_of(' ') + 1);
        if (!field.empty() && differs(field)) fields.push_back(field);
        start = comma + 1;
      }
    }
  }
  for (const std::string& field : point_keys()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end() || !differs(field)) continue;
    std::map<std::vector<std::string>, Json> seen;  // what the fields so far say -> what this one says
    const bool follows = std::all_of(records.begin(), records.end(), [&](const Record* r) {
      std::vector<std::string> key;
      for (const std::string& f : fields) key.push_back(r->text(f));
      const auto [it, fresh] = seen.try_emplace(key, r->value(field));
      return fresh || it->second == r->value(field);
    });
    if (!follows) fields.push_back(field);
  }
  return fields;
}

bool Filter::matches(const Record& record) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return std::any_of(terms_.begin(), terms_.end(), [&](const Term& other) {
      return other.field == term.field && same_value(record.text(other.field), other.value);
    });
  });
}

}  // namespace mbench
