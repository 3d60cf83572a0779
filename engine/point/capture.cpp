#include "engine/point/capture.h"

#include <nlohmann/json.hpp>

#include "engine/point/joined_parts.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<CapturedPart, kCapturedParts> kNames = {{{"layer", CapturedPart::layer},
                                                           {"attention", CapturedPart::attention},
                                                           {"mlp", CapturedPart::mlp},
                                                           {"moe", CapturedPart::moe},
                                                           {"moe_router", CapturedPart::moe_router},
                                                           {"moe_preprocess", CapturedPart::moe_preprocess}}};

}  // namespace

Capture read_capture(const json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == "true" || value == "false") return value == "true";
  const CapturedParts parts = read_joined_parts(value, where, kNames, {}, ", or true or false");
  if (parts.has(CapturedPart::layer) && parts != CapturedParts{CapturedPart::layer})
    fail(ErrorKind::bad_input, where,
         "the part layer holds all others, need it without others, or the others without it");
  if (parts.has(CapturedPart::moe) && (parts.has(CapturedPart::moe_router) || parts.has(CapturedPart::moe_preprocess)))
    fail(ErrorKind::bad_input, where, "the part moe holds moe_router and moe_preprocess, need it without them");
  if (parts.has(CapturedPart::moe_preprocess) && !parts.has(CapturedPart::moe_router))
    fail(ErrorKind::bad_input, where, "the part moe_preprocess follows the router, need moe_router with it");
  return parts;
}

ordered_json write_capture(const Capture& capture) {
  if (capture.parts.any()) return name_of(capture.parts);
  return capture.step;
}

ordered_json capture_schema() {
  ordered_json names = ordered_json::array();
  std::string word;
  for (const auto& [name, part] : kNames) {
    names.push_back(name);
    word += (word.empty() ? "" : "|") + std::string(name);
  }
  const ordered_json text = {{"type", "string"}, {"pattern", fmt::format("^(true|false|({})(\\+({}))*)$", word, word)}};
  const ordered_json list = {{"type", "array"}, {"items", {{"enum", names}}}};
  return {{"anyOf", ordered_json::array({{{"type", "boolean"}}, text, list})}};
}

std::string name_of(const CapturedParts& parts) {
  std::string text;
  for (const auto& [name, part] : kNames)
    if (parts.has(part)) text += (text.empty() ? "" : "+") + std::string(name);
  return text;
}

std::string name_of(const Capture& capture) {
  if (capture.parts.any()) return name_of(capture.parts);
  return capture.step ? "true" : "false";
}

}  // namespace mbench
