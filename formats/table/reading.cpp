#include "formats/table/reading.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/json_reader.h"
#include "formats/table/flat.h"
#include "formats/table/rules.h"

namespace mbench::formats {

Reading::Reading(const Table& table, std::vector<Item> items, std::string file, std::vector<std::string> without)
    : table_(table), items_(std::move(items)), file_(std::move(file)), without_(std::move(without)) {}

bool Reading::is_without(std::string_view key) const {
  return std::find(without_.begin(), without_.end(), key) != without_.end();
}

const Item* Reading::find(std::string_view key) {
  const Row* row = table_.find(key);
  const Item* last = nullptr;  // of a key that is given twice, the last one counts
  for (const Item& item : items_)
    if (item.key == key || (row && table_.find(item.key) == row)) {
      known_.insert(item.key);
      last = &item;
    }
  return last && (is_without(last->key) || last->value == "auto") ? nullptr : last;
}

bool Reading::is_auto(std::string_view key) const {
  return std::any_of(items_.begin(), items_.end(),
                     [&](const Item& item) { return item.key == key && item.value == "auto"; });
}

json Reading::value(std::string_view key, const json& absent) {
  if (const Item* item = find(key)) return item->value;
  const Row* row = table_.find(key);
  return row ? row->absent : absent;
}

double Reading::number(std::string_view key, const json& absent) {
  const Item* item = find(key);
  return read_number(value(key, absent), item ? item->where : file_ + ": " + std::string(key), -1e15, 1e15);
}

std::int64_t Reading::whole(std::string_view key, std::int64_t high, const json& absent) {
  const Item* item = find(key);
  return read_int(value(key, absent), (item ? item->where : file_) + ": " + std::string(key), 1, high);
}

std::string Reading::quoted(std::string_view key, const json& absent) {
  if (const Item* item = find(key)) return fmt::format("{} {} ({})", item->key, short_json(item->value), item->where);
  const Row* row = table_.find(key);
  return fmt::format("{} {}, which it is by default", key, short_json(row ? row->absent : absent));
}

void Reading::set(std::string_view field, const json& value) {
  set_field(spec_, field, value);
}

std::optional<json> Reading::get(std::string_view field) const {
  const ordered_json* value = find_field_of(spec_, field);
  return value ? std::optional<json>(*value) : std::nullopt;
}

void Reading::lack(std::string_view key, const std::string& why, const json& absent) {
  lacks_.push_back(quoted(key, absent) + (why.empty() ? "" : ": " + why));
}

void Reading::ignore(std::string_view key) {
  for (const Item& item : items_)
    if (item.key == key) known_.insert(item.key), ignored_.insert(item.key);
}

void Reading::read_row(const Row& row) {
  const Item* item = find(row.key);
  if (!item && is_auto(row.key)) return note(fmt::format("{} is \"auto\": left as it is", row.key));
  if (!item && row.required)
    fail(ErrorKind::bad_input, file_, "{} is missing, need a number: there is no default", row.key);
  const json theirs = item ? item->value : row.absent;
  if (row.field.empty()) {
    if (item && is_without(item->key)) return;
    if (!item && is_without(row.key)) return;
    if (std::find(row.only.begin(), row.only.end(), theirs) == row.only.end()) lack(row.key, row.why);
    return;
  }
  const json* ours = ours_of(row, theirs);
  if (!ours && is_without(row.key)) {  // the trainer's own default is what mbench lacks
    ours = &row.values.front().second;
    note(fmt::format("left out, as asked: {}, in whose place is {}", row.key, short_json(*ours)));
  }
  if (!ours) return lack(row.key, row.why);
  if (ours->is_null()) return;
  if (row.adds) return add_names(row.field, *ours);
  if (row.values.empty() && !ours->is_number())
    fail(ErrorKind::bad_input, item ? item->where : file_, "{}: wrong type, got {}, need a number", row.key,
         short_json(*ours));
  if (const auto before = get(row.field); before && *before != *ours && said_.contains(row.field)) {
    const std::string& other = said_.at(row.field);
    if (is_without(row.key) || is_without(other))
      note(fmt::format("left out, as asked: {}, in whose place is the {} of {}", is_without(row.key) ? row.key : other,
                       row.field, is_without(row.key) ? other : row.key));
    if (is_without(row.key)) return;
    if (!is_without(other))
      return lack(row.key, fmt::format("mbench has one {} for this and {}", row.field, said_.at(row.field)));
  }
  said_[row.field] = row.key;
  set(row.field, *ours);
}

void Reading::add_names(std::string_view field, const json& names) {
  json all = get(field).value_or(false);
  if (names.empty() || all == true) return;
  if (!all.is_array()) all = json::array();
  for (const json& name : names)
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  set(field, all);
}

void Reading::sort_rest() {
  std::vector<std::string> ignored(ignored_.begin(), ignored_.end()), unsaid, unknown, left_out;
  for (const Item& item : items_) {
    if (is_without(item.key)) {
      left_out.push_back(fmt::format("{} {}", item.key, short_json(item.value)));
      continue;
    }
    if (known_.contains(item.key)) continue;
    known_.insert(item.key);
    if (table_.leaves_unsaid(item.key))
      unsaid.push_back(item.value == json(true) ? item.key : fmt::format("{} {}", item.key, short_json(item.value)));
    else if (table_.ignores(item.key) || item.key.starts_with("_"))
      ignored.push_back(item.key);
    else
      unknown.push_back(fmt::format("{} {} ({})", item.key, short_json(item.value), item.where));
  }
  for (const std::string& name : without_)
    if (std::any_of(table_.lacks.begin(), table_.lacks.end(), [&](const Lack& lack) { return lack.name == name; }))
      left_out.push_back(name);
  if (!left_out.empty()) notes_.push_back(fmt::format("left out, as asked: {}", fmt::join(left_out, ", ")));
  if (!unsaid.empty())
    notes_.push_back(
        fmt::format("no field of a spec says these, and forecasts are as without: {}", fmt::join(unsaid, ", ")));
  if (!unknown.empty())
    notes_.push_back(fmt::format("not known to mbench, and not in the spec: {}", fmt::join(unknown, ", ")));
  if (!ignored.empty()) notes_.push_back(fmt::format("without meaning for cost: {}", fmt::join(ignored, ", ")));
}

void Reading::read() {
  for (const auto& [field, value] : table_.fixed) set(field, value);
  // Where a size is missing, what mbench has no part for is why: layers by a pattern have no number.
  if (std::any_of(table_.rows.begin(), table_.rows.end(),
                  [&](const Row& row) { return row.required && !find(row.key) && !is_auto(row.key); })) {
    for (const Row& row : table_.rows)
      if (row.field.empty()) read_row(row);
    refuse_lacks();
  }
  for (const Row& row : table_.rows) read_row(row);
  for (const std::string& name : table_.rules) rule_named(name).read(*this);
  for (const Lack& each : table_.lacks)
    if (!is_without(each.name)) lacks_.push_back(fmt::format("{}: {}", each.name, each.why));
  sort_rest();
  refuse_lacks();
}

void Reading::refuse_lacks() const {
  if (lacks_.empty()) return;
  // A table without rows knows no key that could be left out.
  fail(ErrorKind::unsupported, file_, "what mbench has no part for: {}; need a model without{}",
       fmt::join(lacks_, "; "),
       table_.rows.empty() ? "" : ", or mbench import --without KEY, which takes a key as if it were not there");
}

}  // namespace mbench::formats
