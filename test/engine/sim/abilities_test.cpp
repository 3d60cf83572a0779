#include "engine/sim/abilities.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/sim/machine.h"
#include "engine/spec/point.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

TEST_CASE("a framework has the values that its file names, and all of a field that it does not name") {
  const Abilities can = Abilities::from_json(R"({"zero": [0, 1], "recompute": ["none", "mlp", "norm"], "offload": ["none"]})"_json, "f.json: $.can");
  CHECK(can.has("zero", 1));
  CHECK_FALSE(can.has("zero", 3));
  CHECK_FALSE(can.has("zero", "oss+sdp"));
  CHECK(can.has("recompute", "mlp+norm"));
  CHECK_FALSE(can.has("recompute", "mlp+moe"));
  CHECK_FALSE(can.has("recompute", "full"));
  CHECK(can.has("tp", 7));
  Point p;
  CHECK(can.lacks(p) == "");
  p.zero = Zero::stage_3;
  p.offload = Offload::optimizer;
  CHECK(can.lacks(p) == "offload optimizer, zero 3");
  CHECK(Abilities().lacks(p) == "");
}

TEST_CASE("what a field cannot hold is no ability, and is refused where it stands") {
  const auto refused = [](const char* text, const char* message) {
    INFO(text);
    try {
      Abilities::from_json(json::parse(text), "f.json: $.can");
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      CHECK_THAT(e.what(), Catch::Contains(message));
    }
  };
  refused(R"({"zero": [0, 9]})", "[f.json: $.can.zero[1]]");
  refused(R"({"zerro": [0]})", "unknown key, got \"zerro\"");
  refused(R"({"zero": 0})", "[f.json: $.can.zero] wrong type");
  refused(R"([1])", "[f.json: $.can] wrong type");
}

TEST_CASE("Megatron-Core shards optimizer state alone, and torchtitan weights too") {
  CHECK_FALSE(find_framework("megatron_core", "test").can.has("zero", 3));
  CHECK(find_framework("megatron_core", "test").can.has("recompute", "moe_act+norm"));
  CHECK(find_framework("torchtitan", "test").can.has("zero", "fsdp"));
  CHECK_FALSE(find_framework("torchtitan", "test").can.has("zero", 1));
  CHECK(find_framework("mbench", "test").can.has("zero", "oss+sdp"));
}
