// Reading declarations from JSON.
#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/tables/builtin_tables.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void wrong_type(const std::string& where, const Json& got, std::string_view need) {
  fail(ErrorKind::bad_input, where, "wrong type, got {}, need {}", got.dump(), need);
}

void allow_keys(const Json& json, const std::string& where, const std::vector<std::string>& keys) {
  if (!json.is_object()) wrong_type(where, json, "an object");
  for (const auto& [key, value] : json.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(ErrorKind::bad_input, where + "." + key, "unknown key, got \"{}\", {}", key, nearest_choice(key, keys));
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

Condition filter_of(const Json& json, const std::string& where) {
  if (!json.is_object()) wrong_type(where, json, "an object of field: value or field: [values]");
  Condition filter;
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

// A name for machines where the declaration gives none: the only value of the text (its spread in brackets aside),
// else the header.
std::string machine_name(const std::vector<CellText>& lines, const std::string& header) {
  std::vector<std::string> names;
  for (const CellText& line : lines)
    for (const CellText::Part& part : line.parts())
      if (!part.name.empty() && part.group == 0) names.push_back(part.name);
  return names.size() == 1 ? names[0] : header;
}

// A text, or an array of them: one line each.
std::vector<CellText> lines_of(const Json& json, const std::string& where) {
  std::vector<CellText> lines;
  if (!json.is_array()) return {CellText::parse(string_of(json, where), where)};
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    lines.push_back(CellText::parse(string_of(json[i], at), at));
  }
  return lines;
}

RowDeclaration row_from_json(const Json& json, const std::string& where) {
  if (json.is_string()) return row_of(json.get<std::string>());
  allow_keys(json, where, {"header", "text", "names"});
  RowDeclaration row;
  row.header = row.name = string_of(required(json, "header", where), where + ".header");
  if (json.contains("text") == json.contains("names"))
    fail(ErrorKind::bad_input, where, "a row's label comes from one place, got {}, need \"text\" or \"names\"",
         json.dump());
  if (json.contains("text")) {
    row.lines = lines_of(json["text"], where + ".text");
    row.name = machine_name(row.lines, row.header);
    return row;
  }
  if (!json["names"].is_array()) wrong_type(where + ".names", json["names"], "an array of {\"text\", \"where\"}");
  for (std::size_t i = 0; i < json["names"].size(); ++i) {
    const Json& item = json["names"][i];
    const std::string at = fmt::format("{}.names[{}]", where, i);
    allow_keys(item, at, {"text", "where"});
    row.names.push_back(
        {lines_of(required(item, "text", at), at + ".text"), filter_of(required(item, "where", at), at + ".where")});
  }
  return row;
}

struct RelationName {
  const char* name;
  Relation relation;
  const char* format;
};
constexpr RelationName kRelations[] = {{"overhead", Relation::overhead, "{value*100:+1} %"},
                                       {"saved", Relation::saved, "{value*100:1} %"},
                                       {"reduction", Relation::reduction, "{value:1}"},
                                       {"difference", Relation::difference, "{value:+1}"},
                                       {"ratio", Relation::ratio, "{value:2}x"},
                                       {"speedup", Relation::speedup, "{value:2}x"},
                                       {"efficiency", Relation::efficiency, "{value*100:1} %"},
                                       {"weak_efficiency", Relation::weak_efficiency, "{value*100:1} %"}};

const RelationName& relation_of(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const RelationName& known : kRelations) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  fail(ErrorKind::bad_input, where, "unknown comparison, got \"{}\", {}", name, nearest_choice(name, names));
}

ColumnDeclaration column_from_json(const Json& json, const std::string& where) {
  if (json.is_string()) return column_of(json.get<std::string>());
  allow_keys(json, where, {"header", "text", "where", "value", "against", "as", "format", "self"});
  ColumnDeclaration column;
  column.header = column.name = string_of(required(json, "header", where), where + ".header");
  if (json.contains("where")) column.where = filter_of(json["where"], where + ".where");
  if (json.contains("text") == json.contains("value"))
    fail(ErrorKind::bad_input, where, "a cell comes from one place, got {}, need \"text\" or \"value\"", json.dump());
  if (json.contains("text")) {
    for (const char* key : {"against", "as", "format", "self"})
      if (json.contains(key)) fail(ErrorKind::bad_input, where + "." + key, "goes only with \"value\", got \"text\"");
    column.lines = lines_of(json["text"], where + ".text");
    column.name = machine_name(column.lines, column.header);
    return column;
  }
  column.value = string_of(json["value"], where + ".value");
  const std::string as_where = where + ".as", as_name = string_of(required(json, "as", where), as_where);
  const RelationName& as = relation_of(as_name, as_where);
  column.relation = as.relation;
  column.format =
      CellText::parse(json.contains("format") ? string_at(json, "format", where) : as.format, where + ".format");
  for (const std::string& name : column.format.names())
    if (name != "value")
      fail(ErrorKind::bad_input, where + ".format",
           "a comparison has one number, got {{{}}}, need {{value}} as in \"{}\"", name, as.format);
  if (json.contains("self")) column.self = string_at(json, "self", where);
  const Json& against = required(json, "against", where);
  if (!(against.is_string() && against == "first")) {
    if (!against.is_object() || against.empty())
      wrong_type(where + ".against", against, "\"first\" or an object of field: value");
    column.against = filter_of(against, where + ".against");
  }
  column.name = fmt::format("{}.{}", column.value, as.name);
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

// The built-in table that `declared` names, with the keys that it gives.
Json like(const Json& declared, const std::string& where) {
  const std::string name = string_at(declared, "like", where);
  const Json* known = find_builtin_json(name);
  if (!known)
    fail(ErrorKind::bad_input, where + ".like", "no built-in table of that name, got \"{}\", {}", name,
         nearest_choice(name, builtin_names()));
  Json json = known->contains("like") ? like(*known, where) : *known;
  for (const auto& [key, value] : declared.items()) json[key] = value;
  return json;
}

}  // namespace

TableDeclaration table_declaration_from_json(const Json& declared, const std::string& where) {
  allow_keys(
      declared, where,
      {"name", "like", "title", "note", "where", "each", "sections", "rows", "pivot", "columns", "labels", "sort"});
  const Json json = declared.contains("like") ? like(declared, where) : declared;
  TableDeclaration declaration;
  declaration.name = string_of(required(json, "name", where), where + ".name");
  declaration.title = string_at(json, "title", where);
  declaration.note = string_at(json, "note", where);
  if (json.contains("where")) declaration.where = filter_of(json["where"], where + ".where");
  if (const std::string each = string_at(json, "each", where); !each.empty()) {
    static const std::map<std::string, Each> kinds = {
        {"rank", Each::rank}, {"window", Each::window}, {"seeds", Each::seeds}};
    if (!kinds.contains(each))
      fail(ErrorKind::bad_input, where + ".each",
           "no rows of that kind, got \"{}\", need \"rank\", \"window\" or \"seeds\"", each);
    declaration.each = kinds.at(each);
  }
  declaration.sections = list_of<CellText>(json, "sections", where, [](const Json& item, const std::string& at) {
    return CellText::parse(with_braces(string_of(item, at)), at);
  });
  required(json, "rows", where);
  declaration.rows = list_of<RowDeclaration>(json, "rows", where, row_from_json);
  if (declaration.rows.empty()) fail(ErrorKind::bad_input, where + ".rows", "a table needs labels, got none, need one");
  required(json, "columns", where);
  declaration.columns = list_of<ColumnDeclaration>(json, "columns", where, column_from_json);
  if (declaration.columns.empty())
    fail(ErrorKind::bad_input, where + ".columns", "a table needs columns, got none, need one");
  if (json.contains("pivot"))
    declaration.pivot = CellText::parse(with_braces(string_of(json["pivot"], where + ".pivot")), where + ".pivot");
  if (json.contains("labels")) {
    const std::string at = where + ".labels";
    if (!json["labels"].is_object()) wrong_type(at, json["labels"], "an object");
    for (const auto& [field, texts] : json["labels"].items()) {
      if (!texts.is_object()) wrong_type(at + "." + field, texts, "an object of value: text");
      for (const auto& [value, text] : texts.items())
        declaration.labels[field][value] = string_of(text, at + "." + field + "." + value);
    }
  }
  if (json.contains("sort")) {
    const Json keys = json["sort"].is_array() ? json["sort"] : Json::array({json["sort"]});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::string at = fmt::format("{}.sort[{}]", where, i);
      declaration.sort.push_back(sort_from_text(string_of(keys[i], at), at));
    }
  }
  return declaration;
}

}  // namespace mbench::reports
