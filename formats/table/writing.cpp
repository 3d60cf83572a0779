#include "formats/table/writing.h"

#include "engine/base/json_reader.h"
#include "formats/table/flat.h"
#include "formats/table/rules.h"

namespace mbench::formats {

json Writing::at(std::string_view field) const {
  const ordered_json* value = find_field_of(flat_, field);
  return value ? json(*value) : json();
}

double Writing::number(std::string_view field) const {
  const json value = at(field);
  return value.is_number() ? value.get<double>() : 0;
}

void Writing::put(std::string_view key, const json& value) {
  items_.emplace_back(key, value);
}

void Writing::cannot(std::string_view field, const std::string& why) {
  faults_.push_back(fmt::format("{} {}{}{}", field, short_json(at(field)), why.empty() ? "" : ": ", why));
}

void Writing::write() {
  for (const auto& [field, value] : table_.fixed)
    if (const json ours = at(field); !ours.is_null() && ours != value)
      cannot(field, fmt::format("it is {} there", short_json(value)));
  for (const Row& row : table_.rows) {
    if (row.field.empty()) {
      if (row.only.front() != row.absent && !row.only.front().is_null()) put(row.key, row.only.front());
      continue;
    }
    const json ours = at(row.field);
    if (ours.is_null()) {
      if (row.always && row.field.starts_with("model."))
        cannot(row.field, fmt::format("there is always a {}", row.key));
      continue;
    }
    const json* theirs = theirs_of(row, ours);
    if (!theirs)
      cannot(row.field);
    else if (row.always || row.required || *theirs != row.absent)
      put(row.key, *theirs);
  }
  for (const std::string& name : table_.rules) rule_named(name).write(*this);
}

}  // namespace mbench::formats
