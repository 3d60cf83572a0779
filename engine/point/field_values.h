// What a field may hold: a reader that refuses anything else at `where`, the accepted values as JSON Schema, and the names it knows.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/base/json_reader.h"
#include "engine/point/choices.h"
#include "engine/point/fields.h"

namespace mbench {

template <class F>
struct FieldValues {
  F read;  // (json, where) -> the value
  nlohmann::ordered_json schema;
  std::vector<FieldChoice> choices = {};
};
template <class F>
FieldValues(F, nlohmann::ordered_json) -> FieldValues<F>;
template <class F>
FieldValues(F, nlohmann::ordered_json, std::vector<FieldChoice>) -> FieldValues<F>;

inline nlohmann::ordered_json range_schema(const char* type, nlohmann::ordered_json low, nlohmann::ordered_json high) {
  return {{"type", type}, {"minimum", std::move(low)}, {"maximum", std::move(high)}};
}

// One of the names, each with its description.
inline nlohmann::ordered_json choices_schema(const std::vector<FieldChoice>& choices) {
  nlohmann::ordered_json each = nlohmann::ordered_json::array();
  for (const FieldChoice& choice : choices) {
    nlohmann::ordered_json one = {{"const", choice.name}};
    if (!choice.doc.empty()) one["description"] = choice.doc;
    each.push_back(std::move(one));
  }
  return {{"oneOf", std::move(each)}};
}

inline nlohmann::ordered_json any_of(nlohmann::ordered_json a, nlohmann::ordered_json b) {
  return {{"anyOf", nlohmann::ordered_json::array({std::move(a), std::move(b)})}};
}

inline nlohmann::ordered_json object_of(nlohmann::ordered_json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

inline auto count(std::int64_t low, std::int64_t high) {
  return FieldValues{
      [=](const nlohmann::json& value, const std::string& where) { return read_int(value, where, low, high); },
      range_schema("integer", low, high)};
}

inline auto number(double low = 0, double high = std::numeric_limits<double>::max()) {
  return FieldValues{
      [=](const nlohmann::json& value, const std::string& where) { return read_number(value, where, low, high); },
      range_schema("number", low, high)};
}

inline auto flag() {
  return FieldValues{read_bool, nlohmann::ordered_json{{"type", "boolean"}}};
}

// Any text, as far as a schema can say.
template <class F>
auto text(F read) {
  return FieldValues{read, nlohmann::ordered_json{{"type", "string"}}};
}

template <class F>
auto matching(F read, const char* pattern, std::vector<FieldChoice> choices = {}) {
  return FieldValues{read, nlohmann::ordered_json{{"type", "string"}, {"pattern", pattern}}, std::move(choices)};
}

template <class Enum>
std::vector<FieldChoice> documented() {
  std::vector<FieldChoice> all;
  for (const NamedChoice<Enum>& choice : choices_of<Enum>())
    all.push_back({std::string(choice.name), std::string(choice.doc)});
  return all;
}

template <class Enum>
Enum read_named(const nlohmann::json& value, const std::string& where) {
  std::vector<std::string> names;
  for (const NamedChoice<Enum>& choice : choices_of<Enum>()) {
    if (value.is_string() && value.get_ref<const std::string&>() == choice.name) return choice.value;
    names.emplace_back(choice.name);
  }
  fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
       nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
}

template <class Enum>
auto choice() {
  std::vector<FieldChoice> choices = documented<Enum>();
  nlohmann::ordered_json schema = choices_schema(choices);
  return FieldValues{read_named<Enum>, std::move(schema), std::move(choices)};
}

// The same for a former field, that does not offer a choice which came after it. Points that have it are read.
template <class Enum>
auto choice_without(Enum later) {
  std::vector<FieldChoice> choices;
  for (const NamedChoice<Enum>& choice : choices_of<Enum>())
    if (choice.value != later) choices.push_back({std::string(choice.name), std::string(choice.doc)});
  nlohmann::ordered_json schema = choices_schema(choices);
  return FieldValues{read_named<Enum>, std::move(schema), std::move(choices)};
}

}  // namespace mbench
