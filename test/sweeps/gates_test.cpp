#include "sweeps/spec/gates.h"

#include "engine/base/json_reader.h"
#include "engine/point/gates.h"
#include "sweeps/spec/spec.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;

namespace {

std::vector<Gate> gates_of(const char* text) {
  return read_gates(nlohmann::ordered_json::parse(text), "$.gates");
}

std::string why(const char* text) {
  try {
    gates_of(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

sweeps::Spec spec_of(const std::string& gates, const std::vector<std::string>& set = {}) {
  sweeps::SpecOptions options;
  options.path = "spec.json";
  options.set = set;
  options.json = nlohmann::ordered_json::parse(
      R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "sweep": {"tp": [1, 2]}, "gates": )" + gates + "}");
  return sweeps::read_spec(options);
}

}  // namespace

TEST_CASE("gates are bounds on metrics, in the metric's unit or as a share of a reference") {
  const auto gates =
      gates_of(R"({"iteration_ms": {"at_most": 28000}, "tflops_per_device": {"at_least": "95%", "of": 240}})");
  REQUIRE(gates.size() == 2);
  CHECK(gates[0].metric == "iteration_ms");
  CHECK(gates[0].at_most == 28000);
  CHECK_FALSE(gates[0].at_least);
  CHECK(gates[0].where.empty());
  CHECK(gates[1].at_least == 228);
  CHECK(gates[1].reference == 240);
  const auto listed = gates_of(
      R"([{"where": {"tp": 2}, "source": "the contract", "mfu": {"at_least": 0.4}}, {"mfu": {"at_least": 0.3}}])");
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].where.size() == 1);
  CHECK(listed[0].source == "the contract");
  CHECK(listed[1].place == "$.gates[1].mfu");
}

TEST_CASE("gates that ask for nothing, or for what no number is, are refused by their path") {
  CHECK_THAT(why("{}"), Contains("[$.gates] no gate"));
  CHECK_THAT(why("[]"), Contains("[$.gates] got an empty list"));
  CHECK_THAT(why("7"), Contains("[$.gates] wrong type"));
  CHECK_THAT(why(R"({"mfu": {}})"), Contains("[$.gates.mfu] asks for nothing") && Contains("at_most or at_least"));
  CHECK_THAT(why(R"({"mfu": {"at_lest": 1}})"), Contains("[$.gates.mfu.at_lest]"));
  CHECK_THAT(why(R"({"mfu": {"at_least": "95%"}})"), Contains("a share of nothing") && Contains("\"of\""));
  CHECK_THAT(why(R"({"mfu": {"at_least": "much"}})"), Contains("[$.gates.mfu.at_least]") && Contains("\"95%\""));
  CHECK_THAT(why(R"({"mfu": {"at_least": 2, "at_most": 1}})"), Contains("no number is both"));
  CHECK_THAT(why(R"([{"where": {"tq": 2}, "mfu": {"at_least": 1}}])"), Contains("[$.gates[0].where.tq]"));
}

TEST_CASE("a gate is for some point of its spec, unless --set took that away") {
  CHECK(spec_of(R"([{"where": {"tp": 2}, "iteration_ms": {"at_most": 9}}])").points.size() == 2);
  CHECK_THROWS_WITH(spec_of(R"([{"where": {"tp": 4}, "iteration_ms": {"at_most": 9}}])"),
                    Contains("$.gates[0].iteration_ms] is for none of the 2 points"));
  CHECK_NOTHROW(spec_of(R"([{"where": {"tp": 2}, "iteration_ms": {"at_most": 9}}])", {"tp=1"}));
}
