#include "formats/table/row.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "formats/table/framework_rows.h"

namespace mbench::formats {
namespace {

bool named(const Row& row, std::string_view key) {
  return row.key == key || std::find(row.also.begin(), row.also.end(), key) != row.also.end();
}

bool matches(const std::vector<std::string>& patterns, std::string_view key) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return pattern.ends_with('*') ? key.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1))
                                  : key == pattern;
  });
}

std::vector<std::string> read_strings(const json& value, const std::string& where) {
  std::vector<std::string> all;
  if (!value.is_array()) fail(ErrorKind::internal, where, "got {}, need an array of texts", short_json(value));
  for (const json& each : value) all.push_back(read_string(each, where));
  return all;
}

Row read_row(const json& value, const std::string& where) {
  ObjectReader object(value, where);
  Row row;
  row.key = read_string(object.require("key", "the trainer's name"), object.path("key"));
  if (const json* also = object.find("also")) row.also = read_strings(*also, object.path("also"));
  if (const json* field = object.find("field")) row.field = read_string(*field, object.path("field"));
  if (const json* values = object.find("values"))
    for (const json& pair : *values) row.values.emplace_back(pair.at(0), pair.at(1));
  if (const json* absent = object.find("absent")) row.absent = *absent;
  if (const json* required = object.find("required")) row.required = read_bool(*required, object.path("required"));
  if (const json* always = object.find("always")) row.always = read_bool(*always, object.path("always"));
  if (const json* adds = object.find("adds")) row.adds = read_bool(*adds, object.path("adds"));
  if (const json* only = object.find("only")) row.only.assign(only->begin(), only->end());
  if (const json* why = object.find("why")) row.why = read_string(*why, object.path("why"));
  object.refuse_unknown();
  if (row.field.empty() == row.only.empty())
    fail(ErrorKind::internal, where, "the row of {} needs either a field or what it may be only", row.key);
  return row;
}

void add(Table& table, const Row& row) {
  for (Row& old : table.rows)
    if (old.key == row.key) {
      old = row;
      return;
    }
  table.rows.push_back(row);
}

}  // namespace

bool Table::ignores(std::string_view key) const {
  return matches(ignored, key);
}

bool Table::leaves_unsaid(std::string_view key) const {
  return matches(unsaid, key);
}

const Row* Table::find(std::string_view key) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return named(row, key); });
  return found == rows.end() ? nullptr : &*found;
}

Table read_table(std::string_view name, const std::vector<std::pair<std::string_view, std::string_view>>& files) {
  const auto file = std::find_if(files.begin(), files.end(), [&](const auto& each) { return each.first == name; });
  if (file == files.end()) fail(ErrorKind::internal, "formats", "no table {}", name);
  const std::string where = std::string(name) + ".json";
  const json text = parse_json(file->second, where);
  ObjectReader object(text, where + ": $");
  Table table;
  const json* like = object.find("like");
  if (like) table = read_table(read_string(*like, object.path("like")), files);
  table.name = name;
  table.types.clear();
  table.classifier.clear();
  table.reads_only = false;
  if (const json* source = object.find("source")) table.source = read_string(*source, object.path("source"));
  if (const json* only = object.find("reads_only")) table.reads_only = read_bool(*only, object.path("reads_only"));
  if (const json* types = object.find("types")) table.types = read_strings(*types, object.path("types"));
  if (const json* name = object.find("classifier")) table.classifier = read_string(*name, object.path("classifier"));
  if (const json* without = object.find("without"))
    for (const std::string& key : read_strings(*without, object.path("without")))
      std::erase_if(table.rows, [&](const Row& row) { return row.key == key; }),
          std::erase_if(table.lacks, [&](const Lack& lack) { return lack.name == key; });
  if (const json* fixed = object.find("fixed"))
    for (const auto& [field, value] : fixed->items()) {
      std::erase_if(table.fixed, [&, key = field](const auto& old) { return old.first == key; });
      table.fixed.emplace_back(field, value);
    }
  if (const json* rows = object.find("rows"))
    for (std::size_t i = 0; i < rows->size(); ++i) {
      Row row = read_row(rows->at(i), fmt::format("{}[{}]", object.path("rows"), i));
      // What a key says here is not fixed any more.
      std::erase_if(table.fixed, [&](const auto& old) { return old.first == row.field; });
      add(table, std::move(row));
    }
  const json* by_rule = object.find("options_by_rule");
  if (const json* framework = object.find("framework"))
    add_framework(table, read_string(*framework, object.path("framework")),
                  by_rule ? read_strings(*by_rule, object.path("options_by_rule")) : std::vector<std::string>{});
  if (const json* rules = object.find("rules")) table.rules = read_strings(*rules, object.path("rules"));
  if (const json* ignored = object.find("ignored"))
    for (const std::string& key : read_strings(*ignored, object.path("ignored"))) table.ignored.push_back(key);
  if (const json* unsaid = object.find("unsaid"))
    for (const std::string& key : read_strings(*unsaid, object.path("unsaid"))) table.unsaid.push_back(key);
  if (const json* lacks = object.find("lacks"))
    for (const auto& [key, why] : lacks->items()) table.lacks.push_back({key, read_string(why, object.path("lacks"))});
  object.refuse_unknown();
  if (table.source.empty())
    fail(ErrorKind::internal, where, "\"source\" is missing, need where its keys and defaults stand");
  return table;
}

const json* ours_of(const Row& row, const json& theirs) {
  if (row.values.empty()) return &theirs;
  for (const auto& [their, our] : row.values)
    if (their == theirs) return &our;
  return nullptr;
}

namespace {

// Whether all names of a list are among those of another; true stands for all names, false for none.
bool among(const json& names, const json& all) {
  return std::all_of(names.begin(), names.end(), [&](const json& name) {
    return all == true || (all.is_array() && std::find(all.begin(), all.end(), name) != all.end());
  });
}

}  // namespace

const json* theirs_of(const Row& row, const json& ours) {
  if (row.values.empty()) return &ours;
  if (row.adds) {
    const json *best = nullptr, *names = nullptr;
    for (const auto& [their, our] : row.values)
      if (among(our, ours) && (!names || our.size() > names->size())) best = &their, names = &our;
    return best;
  }
  for (const auto& [their, our] : row.values)
    if (our == ours) return &their;
  return nullptr;
}

}  // namespace mbench::formats
