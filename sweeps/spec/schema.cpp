#include "sweeps/spec/schema.h"

#include <nlohmann/json.hpp>

#include "engine/point/fields.h"

namespace mbench::sweeps {
namespace {

using nlohmann::ordered_json;

// At least one value of `items`.
ordered_json some(ordered_json items) {
  return {{"type", "array"}, {"minItems", 1}, {"items", std::move(items)}};
}

ordered_json reference(const std::string& field) {
  return {{"$ref", "#/$defs/" + field}};
}

// `sweep`: a field's values, or those of several that are zipped, whose key is joined by commas.
ordered_json sweep_schema(const ordered_json& fields) {
  ordered_json properties = ordered_json::object();
  for (const auto& [field, values] : fields.items()) properties[field] = some(reference(field));
  return {
      {"type", "object"},
      {"properties", properties},
      {"patternProperties",
       {{"^[^,]*,.*$", some({{"type", "array"}, {"minItems", 2}})}, {"^machine\\.[^,]+$", some({{"type", "number"}})}}},
      {"additionalProperties", false}};
}

ordered_json published_schema() {
  const ordered_json text = {{"type", "string"}};
  ordered_json schema = {{"type", "object"},
                         {"properties",
                          {{"source", text},
                           {"machine", text},
                           {"about", text},
                           {"flags", {{"type", "array"}, {"items", text}}},
                           {"rows", {{"type", "array"}, {"items", {{"type", "object"}}}}}}}};
  schema["required"] = ordered_json::array({"source", "rows"});
  return schema;
}

// Bounds on metrics, of all points or of those that a `where` picks.
ordered_json gates_schema() {
  const ordered_json number = {{"type", "number"}},
                     bound = {
                         {"anyOf", ordered_json::array({number, {{"type", "string"}, {"pattern", "^[0-9.]+%$"}}})}};
  const ordered_json bounds = {{"type", "object"},
                               {"minProperties", 1},
                               {"properties", {{"at_most", bound}, {"at_least", bound}, {"of", number}}},
                               {"additionalProperties", false}};
  const ordered_json gates = {{"type", "object"},
                              {"minProperties", 1},
                              {"properties", {{"where", {{"type", "object"}}}, {"source", {{"type", "string"}}}}},
                              {"additionalProperties", bounds}};
  return {{"anyOf", ordered_json::array({gates, some(gates)})}};
}

// The fields of a point that a spec may have.
ordered_json spec_fields() {
  ordered_json fields = point_schema();
  fields.erase("device");  // --on says it
  return fields;
}

ordered_json tables_schema() {
  ordered_json table;
  table["type"] = ordered_json::array({"string", "object"});
  return {{"anyOf", ordered_json::array({table, {{"type", "array"}, {"items", table}}})}};
}

// What every spec may have beside its fields.
ordered_json common_properties() {
  return {{"$schema", {{"type", "string"}}}, {"name", {{"type", "string"}}}};
}

ordered_json schema_of(const std::string& title, const ordered_json& properties, const ordered_json& fields) {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", title},
          {"type", "object"},
          {"properties", properties},
          {"patternProperties", {{"^machine\\.[^,]+$", {{"type", "number"}}}}},
          {"additionalProperties", false},
          {"$defs", fields}};
}

}  // namespace

ordered_json spec_schema() {
  const ordered_json fields = spec_fields();
  ordered_json properties = common_properties();
  for (const auto& [field, values] : fields.items()) properties[field] = reference(field);
  properties["sweep"] = sweep_schema(fields);
  properties["tables"] = tables_schema();
  properties["published"] = published_schema();
  properties["gates"] = gates_schema();
  return schema_of("A spec of mbench sweep", properties, fields);
}

ordered_json search_schema() {
  const ordered_json fields = spec_fields();
  ordered_json properties = common_properties(), names = ordered_json::array();
  for (const auto& [field, values] : fields.items()) {
    names.push_back(field);
    const ordered_json any = {{"const", "any"}};
    const ordered_json value_or_any = {{"anyOf", ordered_json::array({reference(field), any})}};
    properties[field] = {{"anyOf", ordered_json::array({reference(field), any, some(value_or_any)})}};
  }
  properties["search"] = {
      {"anyOf", ordered_json::array({{{"const", "all"}}, {{"type", "array"}, {"items", {{"enum", names}}}}})}};
  properties["tables"] = tables_schema();
  properties["published"] = published_schema();
  properties["gates"] = gates_schema();
  return schema_of("A spec of mbench search", properties, fields);
}

}  // namespace mbench::sweeps
