#include "engine/point/field_docs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/field_table.h"

namespace mbench {
namespace {

using nlohmann::ordered_json;

constexpr BearsOn kParts[] = {BearsOn::micro_batch, BearsOn::experts, BearsOn::recompute,
                              BearsOn::state,       BearsOn::update,  BearsOn::schedule};

std::string_view name_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::model:
      return "model";
    case FieldKind::training:
      return "training";
    case FieldKind::layout:
      return "layout";
    case FieldKind::limit:
      return "limit";
    case FieldKind::place:
      return "place";
  }
  return "";
}

std::string bearings_of(const Bearings& bears_on) {
  std::string text;
  for (const BearsOn part : kParts)
    if (bears_on.has(part)) text += (text.empty() ? "" : ", ") + std::string(mbench::name_of(part));
  return text.empty() ? "nothing" : text;
}

ordered_json default_of(const Field& field) {
  return field.about.kind == FieldKind::model ? ordered_json(nullptr) : field.write(Point());
}

// As it is written in a spec; empty where there is none to write.
std::string default_text(const ordered_json& value) {
  if (value.is_null()) return "required";
  if (value.is_string()) return value.get<std::string>();
  return value.empty() ? "" : value.dump();
}
std::string default_text(const Field& field) {
  return default_text(default_of(field));
}

// What it takes, in a few words, where it has no choices by name.
std::string values_text(const Field& field) {
  const ordered_json& schema = field.schema;
  if (field.about.kind == FieldKind::model) return "a name or an object";
  if (!schema.contains("type")) {
    const ordered_json any = schema.value("anyOf", ordered_json::array());
    const bool list =
        std::any_of(any.begin(), any.end(), [](const ordered_json& one) { return one.value("type", "") == "array"; });
    return list ? "a text or a list" : "a number or a text";
  }
  const std::string type = schema.at("type");
  if (type == "boolean") return "true, false";
  if (type == "object") return "an object";
  if (type == "string") return "a text";
  const std::string what = type == "integer" ? "a whole number" : "a number";
  const bool open = !schema.contains("maximum") || schema.at("maximum").get<double>() > 1e18;
  if (open) return fmt::format("{}, at least {}", what, schema.at("minimum").dump());
  return fmt::format("{}, {} to {}", what, schema.at("minimum").dump(), schema.at("maximum").dump());
}

std::string names_text(const Field& field, const char* mark) {
  std::string text;
  for (const FieldChoice& choice : field.about.choices)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", mark, choice.name, mark);
  return text;
}

// Markdown for a terminal: links by their text, nothing marked as code.
std::string plain_text(const std::string& markdown) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))"), code("`");
  return std::regex_replace(std::regex_replace(markdown, link, "$1"), code, "");
}

std::string first_sentence(const std::string& text) {
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

// What a cell of a table cannot hold.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

// "megatron-core (default true, --no-rope-fusion)".
std::string owners_of(const FrameworkOption& option, const char* mark) {
  std::string text;
  for (const FrameworkFile& file : builtin_frameworks())
    if (const FrameworkOption* own = file.option(option.name))
      text += fmt::format("{}{}{}{} (default {}{})", text.empty() ? "" : ", ", mark, file.name(), mark, own->otherwise,
                          own->flag.empty() ? "" : fmt::format(", {}{}{}", mark, own->flag, mark));
  return text;
}

std::string options_section() {
  std::string text =
      "\n## Options of frameworks\n\n"
      "A framework's file (engine/framework) has them. A spec sets one within `framework`, or as "
      "`framework.OPTION`.\n\n"
      "| option | of | meaning | values |\n|---|---|---|---|\n";
  for (const FrameworkOption& option : all_framework_options()) {
    std::string values;
    for (const FrameworkChoice& choice : option.choices)
      values += fmt::format("{}`{}`: {}{}", values.empty() ? "" : " ", choice.name, choice.doc,
                            choice.simulated ? " Simulated only." : "");
    text += fmt::format("| `{}` | {} | {} | {} |\n", option.name, cell(owners_of(option, "`")), cell(option.doc),
                        cell(values));
  }
  return text;
}

std::string former_section() {
  std::string text =
      "\n## Former fields\n\n"
      "Specs and results of earlier versions have these. They are read as ever, and are written within the field that "
      "says it now.\n\n"
      "| field | now within | values |\n|---|---|---|\n";
  for (const Field& field : former_fields())
    text += fmt::format("| `{}` | `{}` | {} |\n", field.about.key, field.about.part_of,
                        field.about.choices.empty() ? values_text(field) : cell(names_text(field, "`")));
  return text;
}

std::string describe_option(const std::string& key) {
  const std::string name = key.substr(kFrameworkField.size());
  std::vector<std::string> names;
  for (const FrameworkOption& option : all_framework_options()) {
    names.push_back(option.name);
    if (option.name != name) continue;
    std::string text = fmt::format("{}\n  {}\n\n  of       {}\n\n", key, plain_text(option.doc), owners_of(option, ""));
    for (const FrameworkChoice& choice : option.choices)
      text += fmt::format("  {:<20}  {}{}\n", choice.name, plain_text(choice.doc),
                          choice.simulated ? " Simulated only." : "");
    return text;
  }
  fail(ErrorKind::bad_input, "help", "no such option, got \"{}\", {}", name, nearest_choice(name, names));
}

std::string describe_precision_part(const std::string& key) {
  const std::string part = key.substr(kPrecisionField.size());
  const ordered_json parts = precision_schema().at("anyOf").at(1).at("properties");
  std::vector<std::string> names;
  for (const auto& [name, schema] : parts.items())
    if (schema.contains("description")) names.push_back(name);
  if (std::find(names.begin(), names.end(), part) == names.end())
    fail(ErrorKind::bad_input, "help", "no such key of precision, got \"{}\", {}", part, nearest_choice(part, names));
  return fmt::format("{}\n  {}\n\n  default  {}\n", key,
                     plain_text(parts.at(part).at("description").get<std::string>()),
                     default_text(precision_part({}, part)));
}

}  // namespace

std::string describe_field(const std::string& key) {
  if (key.starts_with(kFrameworkField)) return describe_option(key);
  if (key.starts_with(kPrecisionField)) return describe_precision_part(key);
  const Field* field = field_named(key);
  if (!field)
    fail(ErrorKind::bad_input, "help", "no such field, got \"{}\", {}", key, nearest_choice(key, point_keys()));
  const PointField& about = field->about;
  std::string text = fmt::format("{}\n  {}\n\n  values   {}\n", key, plain_text(about.doc),
                                 about.choices.empty() ? values_text(*field) : names_text(*field, ""));
  if (!about.unit.empty()) text += fmt::format("  unit     {}\n", about.unit);
  text += fmt::format("  default  {}\n  kind     {}\n  bears on {}\n", default_text(*field), name_of(about.kind),
                      bearings_of(about.bears_on));
  std::size_t width = 0;
  for (const FieldChoice& choice : about.choices) width = std::max(width, choice.name.size());
  if (width > 0) text += "\n";
  for (const FieldChoice& choice : about.choices)
    text += fmt::format("  {:<{}}  {}\n", choice.name, width, plain_text(choice.doc));
  return text;
}

std::string list_fields() {
  std::size_t width = 0;
  for (const Field& field : field_table()) width = std::max(width, field.about.key.size());
  std::string text = "The fields of a spec. `mbench help FIELD` says more of one.\n\n";
  for (const Field& field : field_table())
    text += fmt::format("  {:<{}}  {}\n", field.about.key, width, first_sentence(plain_text(field.about.doc)));
  return text;
}

std::string fields_page() {
  std::string text =
      "# The fields of a spec\n\n"
      "`mbench help --format markdown` wrote this page from the table of fields. `mbench help FIELD` prints one field. "
      "A spec names a field "
      "at its top level, in `sweep`, or by `--set`.\n\n"
      "\"Bears on\" says which part of a step's time and memory changes with a field.\n\n"
      "| field | values | unit | default | bears on | meaning |\n|---|---|---|---|---|---|\n";
  for (const Field& field : field_table()) {
    const PointField& about = field.about;
    const std::string value = default_text(field);
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", about.key,
                        about.choices.empty() ? values_text(field) : cell(names_text(field, "`")), about.unit,
                        value == "required" || value.empty() ? value : "`" + value + "`", bearings_of(about.bears_on),
                        cell(about.doc));
  }
  text += "\n## Values by name\n";
  for (const Field& field : field_table()) {
    if (field.about.choices.empty()) continue;
    text += fmt::format("\n### {}\n\n| value | meaning |\n|---|---|\n", field.about.key);
    for (const FieldChoice& choice : field.about.choices)
      text += fmt::format("| `{}` | {} |\n", cell(choice.name), cell(choice.doc));
  }
  return text + options_section() + former_section();
}

ordered_json fields_json() {
  ordered_json all = ordered_json::array();
  for (const Field& field : field_table()) {
    const PointField& about = field.about;
    ordered_json one = {
        {"key", about.key}, {"kind", name_of(about.kind)}, {"default", default_of(field)}, {"unit", about.unit}};
    one["bears_on"] = ordered_json::array();
    for (const BearsOn part : kParts)
      if (about.bears_on.has(part)) one["bears_on"].push_back(mbench::name_of(part));
    one["doc"] = about.doc;
    one["choices"] = ordered_json::object();
    for (const FieldChoice& choice : about.choices) one["choices"][choice.name] = choice.doc;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace mbench
