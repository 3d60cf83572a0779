// What simdjson takes must be what the general parser reads; the rest it must leave to it.
#include "engine/base/simd_json.h"

#include <nlohmann/json.hpp>

#include "test/catch.h"

using namespace mbench;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

bool taken(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) return false;
  json value;
  ordered_json ordered;
  const bool whole = from_simdjson(root, value);
  INFO(text);
  CHECK(whole == from_simdjson(root, ordered));
  if (!whole) return false;
  CHECK(value == json::parse(text));
  CHECK(value.dump() == json::parse(text).dump());
  CHECK(ordered.dump() == ordered_json::parse(text).dump());
  CHECK(value.is_number_float() == json::parse(text).is_number_float());
  return true;
}

}  // namespace

TEST_CASE("plain JSON is read as the general parser reads it") {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-0",
                           "-0.0",
                           "12",
                           "-7",
                           "1.5",
                           "-2.25e3",
                           "1E+2",
                           "5e-324",
                           "9223372036854775807",
                           "18446744073709551615",
                           "-9223372036854775808",
                           "0.1",
                           "123456789.123456789",
                           "\"\"",
                           "\"a b\"",
                           "\"\\n\\\"\\\\ \\u00e9 \\ud83d\\ude80\"",
                           "\"\xe6\xa8\xa1\"",
                           "[]",
                           "{}",
                           "[1, [2, []], {}]",
                           " {\"b\": 1,\n\t\"a\": {\"x\": [1.5, null, \"s\"]}, \"\": false}\r\n",
                           "[[[[[[1]]]]]]"})
    CHECK(taken(text));
}

TEST_CASE("what is no JSON, or none that can be held, is left to the general parser") {
  for (const char* text : {"",
                           " ",
                           "nul",
                           "tru",
                           "NaN",
                           "nan",
                           "Infinity",
                           "-",
                           "+1",
                           "01",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "0x1",
                           "1 2",
                           "18446744073709551616",
                           "-9223372036854775809",
                           "1e999",
                           "\"",
                           "\"a",
                           "\"\\",
                           "\"\\x\"",
                           "\"\n\"",
                           "\"\xff\"",
                           "\"\\ud800\"",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "{",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\":1,\"a\":2}",
                           "{1:2}",
                           "]",
                           "}",
                           "// c\n1"})
    CHECK_FALSE(taken(text));
  CHECK_FALSE(taken(std::string(2000, '[') + std::string(2000, ']')));
}
