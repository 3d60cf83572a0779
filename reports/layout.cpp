#include "reports/layout.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/builtin_layouts.h"

namespace mbench {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void wrong_type(const std::string& where, const Json& got, std::string_view need) {
  fail(ErrorKind::bad_input, where, "wrong type, got {}, need {}", got.dump(), need);
}

void allow_keys(const Json& json, const std::string& where, const std::vector<std::string>& keys) {
  if (!json.is_object()) wrong_type(where, json, "an object");
  for (const auto& [key, value] : json.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(ErrorKind::bad_input, where + "." + key, "unknown key, got \"{}\", {}", key,
           nearest_choice(key, keys));
}

std::string string_of(const Json& json, const std::string& where) {
  if (!json.is_string()) wrong_type(where, json, "a string");
  return json.get<std::string>();
}

std::string string_at(const Json& json, const char* key, const std::string& where) {
  return json.contains(key) ? string_of(json[key], where + "." + key) : std::string();
}

const Json& required(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key)) fail(ErrorKind::bad_input, where, "no \"{}\", got {}, need it", key, json.dump());
  return json[key];
}

Filter filter_of(const Json& json, const std::string& where) {
  if (!json.is_object()) wrong_type(where, json, "an object of field: value or field: [values]");
  Filter filter;
  for (const auto& [field, values] : json.items()) {
    if (values.is_array())
      for (const Json& value : values) filter.add(field, text_of(value));
    else
      filter.add(field, text_of(values));
  }
  return filter;
}

// Field names of a text without braces: "tp,pp" becomes "tp {tp}, pp {pp}".
std::string with_braces(const std::string& text) {
  if (text.find('{') != std::string::npos) return text;
  std::string out;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string field = text.substr(start, comma - start);
    field.erase(0, field.find_first_not_of(' '));
    out += fmt::format("{}{} {{{}}}", out.empty() ? "" : ", ", field, field);
    start = comma + 1;
  }
  return out;
}

// A name for machines where the layout gives none: the only value of the text (its spread in brackets aside),
// else the header.
std::string machine_name(const std::vector<CellText>& lines, const std::string& header) {
  std::vector<std::string> names;
  for (const CellText& line : lines)
    for (const CellText::Part& part : line.parts())
      if (!part.name.empty() && part.group == 0) names.push_back(part.name);
  return names.size() == 1 ? names[0] : header;
}

LayoutRow row_from_json(const Json& json, const std::string& where) {
  if (json.is_string()) return row_of(json.get<std::string>());
  allow_keys(json, where, {"header", "text", "names"});
  LayoutRow row;
  row.header = row.name = string_of(required(json, "header", where), where + ".header");
  if (json.contains("text") == json.contains("names"))
    fail(ErrorKind::bad_input, where,
         "a row's label comes from one place, got {}, need \"text\" or \"names\"", json.dump());
  if (json.contains("text")) {
    row.text = CellText::parse(string_of(json["text"], where + ".text"), where + ".text");
    row.name = machine_name({*row.text}, row.header);
    return row;
  }
  if (!json["names"].is_array())
    wrong_type(where + ".names", json["names"], "an array of {\"text\", \"where\"}");
  for (std::size_t i = 0; i < json["names"].size(); ++i) {
    const Json& item = json["names"][i];
    const std::string at = fmt::format("{}.names[{}]", where, i);
    allow_keys(item, at, {"text", "where"});
    row.names.push_back({CellText::parse(string_of(required(item, "text", at), at + ".text"), at + ".text"),
                         filter_of(required(item, "where", at), at + ".where")});
  }
  return row;
}

Relation relation_of(const std::string& name, const std::string& where) {
  static const std::vector<std::pair<std::string, Relation>> relations = {
      {"overhead", Relation::overhead}, {"saved", Relation::saved},     {"difference", Relation::difference},
      {"ratio", Relation::ratio},       {"speedup", Relation::speedup}, {"efficiency", Relation::efficiency}};
  std::vector<std::string> names;
  for (const auto& [known, relation] : relations) {
    if (known == name) return relation;
    names.push_back(known);
  }
  fail(ErrorKind::bad_input, where, "unknown comparison, got \"{}\", {}", name, nearest_choice(name, names));
}

LayoutColumn column_from_json(const Json& json, const std::string& where) {
  if (json.is_string()) return column_of(json.get<std::string>());
  allow_keys(json, where, {"header", "text", "where", "value", "against", "as"});
  LayoutColumn column;
  column.header = column.name = string_of(required(json, "header", where), where + ".header");
  if (json.contains("where")) column.where = filter_of(json["where"], where + ".where");
  if (json.contains("text") == json.contains("value"))
    fail(ErrorKind::bad_input, where, "a cell comes from one place, got {}, need \"text\" or \"value\"",
         json.dump());
  if (json.contains("text")) {
    for (const char* key : {"against", "as"})
      if (json.contains(key))
        fail(ErrorKind::bad_input, where + "." + key, "goes with \"value\" alone, got \"text\" beside it");
    const Json& text = json["text"];
    if (text.is_array())
      for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string at = fmt::format("{}.text[{}]", where, i);
        column.lines.push_back(CellText::parse(string_of(text[i], at), at));
      }
    else
      column.lines.push_back(CellText::parse(string_of(text, where + ".text"), where + ".text"));
    column.name = machine_name(column.lines, column.header);
    return column;
  }
  column.value = string_of(json["value"], where + ".value");
  column.relation = relation_of(string_of(required(json, "as", where), where + ".as"), where + ".as");
  const Json& against = required(json, "against", where);
  if (!(against.is_string() && against == "first")) {
    if (!against.is_object() || against.empty())
      wrong_type(where + ".against", against, "\"first\" or an object of field: value");
    column.against = filter_of(against, where + ".against");
  }
  column.name = fmt::format("{}.{}", column.value, json["as"].get<std::string>());
  return column;
}

template <class Item, class Read>
std::vector<Item> list_of(const Json& json, const char* key, const std::string& where, Read read) {
  std::vector<Item> list;
  if (!json.contains(key)) return list;
  if (!json[key].is_array()) wrong_type(where + "." + key, json[key], "an array");
  for (std::size_t i = 0; i < json[key].size(); ++i)
    list.push_back(read(json[key][i], fmt::format("{}.{}[{}]", where, key, i)));
  return list;
}

}  // namespace

LayoutColumn column_of(const std::string& name) {
  LayoutColumn column;
  const MetricFormat* format = find_metric_format(name);
  column.header = format ? format->header : name;
  column.name = name;
  column.lines.push_back(CellText::parse(format ? format->text : "{" + name + "}", name));
  return column;
}

LayoutRow row_of(const std::string& field) {
  LayoutRow row;
  row.header = row.name = field;
  row.swept = field == "*";
  if (!row.swept) row.text = CellText::parse("{" + field + "}", field);
  return row;
}

Layout layout_from_json(const Json& json, const std::string& where) {
  allow_keys(json, where,
             {"name", "title", "note", "where", "sections", "rows", "pivot", "columns", "labels"});
  Layout layout;
  layout.name = string_of(required(json, "name", where), where + ".name");
  layout.title = string_at(json, "title", where);
  layout.note = string_at(json, "note", where);
  if (json.contains("where")) layout.where = filter_of(json["where"], where + ".where");
  layout.sections = list_of<CellText>(json, "sections", where, [](const Json& item, const std::string& at) {
    return CellText::parse(with_braces(string_of(item, at)), at);
  });
  required(json, "rows", where);
  layout.rows = list_of<LayoutRow>(json, "rows", where, row_from_json);
  if (layout.rows.empty())
    fail(ErrorKind::bad_input, where + ".rows", "a table needs labels, got none, need one");
  required(json, "columns", where);
  layout.columns = list_of<LayoutColumn>(json, "columns", where, column_from_json);
  if (layout.columns.empty())
    fail(ErrorKind::bad_input, where + ".columns", "a table needs columns, got none, need one");
  if (json.contains("pivot"))
    layout.pivot = CellText::parse(with_braces(string_of(json["pivot"], where + ".pivot")), where + ".pivot");
  if (json.contains("labels")) {
    const std::string at = where + ".labels";
    if (!json["labels"].is_object()) wrong_type(at, json["labels"], "an object");
    for (const auto& [field, texts] : json["labels"].items()) {
      if (!texts.is_object()) wrong_type(at + "." + field, texts, "an object of value: text");
      for (const auto& [value, text] : texts.items())
        layout.labels[field][value] = string_of(text, at + "." + field + "." + value);
    }
  }
  return layout;
}

std::vector<std::string> Layout::names() const {
  std::vector<std::string> all;
  const auto add_text = [&](const CellText& text) {
    for (std::string& name : text.names()) all.push_back(std::move(name));
  };
  const auto add_filter = [&](const Filter& filter) {
    for (const Filter::Term& term : filter.terms()) all.push_back(term.field);
  };
  add_filter(where);
  for (const CellText& section : sections) add_text(section);
  for (const LayoutRow& row : rows) {
    if (row.text) add_text(*row.text);
    for (const LayoutRowName& name : row.names) add_text(name.text), add_filter(name.where);
  }
  if (pivot) add_text(*pivot);
  for (const LayoutColumn& column : columns) {
    for (const CellText& line : column.lines) add_text(line);
    add_filter(column.where);
    add_filter(column.against);
    if (!column.value.empty()) all.push_back(column.value);
  }
  return all;
}

}  // namespace mbench
