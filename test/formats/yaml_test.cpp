#include "formats/yaml/yaml.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

nlohmann::ordered_json value_of(const std::string& text) {
  return parse_yaml(text, "a.yaml").value;
}

std::string fault_of(const std::string& text) {
  try {
    parse_yaml(text, "a.yaml");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("yaml: scalars are what PyYAML makes of them, and exponents numbers") {
  CHECK(value_of("a: 1\nb: -2.5\nc: 1e-4\nd: 1.0e+5\ne: true\nf: No\ng: null\nh:\ni: ~\nj: text\nk: '1'\nl: "
                 "\"yes\"\nm: !!str 5\nn: 1_000\no: 1-2\np: .\n") == nlohmann::ordered_json({{"a", 1},
                                                                                             {"b", -2.5},
                                                                                             {"c", 1e-4},
                                                                                             {"d", 1e5},
                                                                                             {"e", true},
                                                                                             {"f", false},
                                                                                             {"g", nullptr},
                                                                                             {"h", nullptr},
                                                                                             {"i", nullptr},
                                                                                             {"j", "text"},
                                                                                             {"k", "1"},
                                                                                             {"l", "yes"},
                                                                                             {"m", "5"},
                                                                                             {"n", 1000},
                                                                                             {"o", "1-2"},
                                                                                             {"p", "."}}));
  CHECK(value_of("- [1, two]\n- {a: b}\n").dump() == R"([[1,"two"],{"a":"b"}])");
  CHECK(value_of("").is_null());
}

TEST_CASE("yaml: anchors repeat a value, merge keys fill in what is missing, and keys have their lines") {
  const Yaml yaml =
      parse_yaml("base: &base\n  seq: 128\n  batch: 1\nrun:\n  <<: *base\n  batch: 2\nlist: [*base]\n", "a.yaml");
  CHECK(yaml.value.at("run").dump() == R"({"batch":2,"seq":128})");
  CHECK(yaml.value.at("list")[0].at("seq") == 128);
  CHECK(yaml.lines.at("run.batch") == 6);
  CHECK(yaml.lines.at("run.seq") == 2);
  CHECK_THAT(fault_of("a: *nothing\n"), Contains("a.yaml:1") && Contains("no anchor &nothing"));
}

TEST_CASE("yaml: bombs, deep nests and what is none are refused by their line") {
  // Nine levels of nine aliases would be 387 million values.
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'i'; ++c)
    bomb += fmt::format("{}: &{} [*{},*{},*{},*{},*{},*{},*{},*{},*{}]\n", c, c, static_cast<char>(c - 1),
                        static_cast<char>(c - 1), static_cast<char>(c - 1), static_cast<char>(c - 1),
                        static_cast<char>(c - 1), static_cast<char>(c - 1), static_cast<char>(c - 1),
                        static_cast<char>(c - 1), static_cast<char>(c - 1));
  CHECK_THAT(fault_of(bomb), Contains("more than 100000 values, with those that aliases repeat"));
  CHECK_THAT(fault_of(std::string(200, '[')), Contains("inside each other"));
  CHECK_THAT(fault_of("a: &a\n  b: *a\n"), Contains("no anchor &a"));  // of itself
  CHECK_THAT(fault_of("a: 1\na: 2\n"), Contains("a.yaml:2") && Contains("\"a\" stands twice"));
  CHECK_THAT(fault_of("a: 1\n---\nb: 2\n"), Contains("a second document"));
  CHECK_THAT(fault_of("a: [1\n"), Contains("not YAML"));
  CHECK_THAT(fault_of("a: \"\\0\"\n"), Contains("U+0000"));
  CHECK_THAT(fault_of("? [1]\n: 2\n"), Contains("a key that is no text"));
  CHECK_THAT(fault_of(std::string(kMostYamlBytes + 1, '#')), Contains("need 4194304 at most"));
  // A tag makes nothing.
  CHECK(value_of("a: !!python/object/apply:os.system ['touch ran']\n").at("a").dump() == R"(["touch ran"])");
}
