#include "engine/point/abilities.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/framework/framework.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

TEST_CASE("a framework has the values that its file names, and all of a field that it does not name") {
  const Abilities can{{{"zero", {"0", "1"}}, {"recompute", {"none", "mlp", "norm"}}, {"offload", {"none"}}}};
  CHECK(has(can, "zero", 1));
  CHECK_FALSE(has(can, "zero", 3));
  CHECK_FALSE(has(can, "zero", "oss+sdp"));
  CHECK(has(can, "recompute", "mlp+norm"));
  CHECK_FALSE(has(can, "recompute", "mlp+moe"));
  CHECK_FALSE(has(can, "recompute", "full"));
  CHECK(has(can, "tp", 7));
  Point p;
  CHECK(lacking(can, p) == "");
  p.zero = Zero::stage_3;
  p.offload = Offload::optimizer;
  CHECK(lacking(can, p) == "offload optimizer, zero 3");
  CHECK(lacking(Abilities(), p) == "");
}

TEST_CASE("what a field cannot hold is no ability, and is refused where it stands") {
  const auto refused = [](const Abilities& can, const char* message) {
    INFO(message);
    try {
      check(can, "f.json: $.can");
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      CHECK_THAT(e.what(), Catch::Contains(message));
    }
  };
  refused({{{"zero", {"0", "9"}}}}, "[f.json: $.can.zero[1]]");
  refused({{{"zerro", {"0"}}}}, "unknown key, got \"zerro\"");
}

TEST_CASE("Megatron-Core shards optimizer state alone, and torchtitan weights too") {
  for (const std::string& name : framework_names()) check(find_framework(name, "test").can, name);
  CHECK_FALSE(has(find_framework("megatron-core", "test").can, "zero", 3));
  CHECK(has(find_framework("megatron-core", "test").can, "recompute", "moe_act+norm"));
  CHECK(has(find_framework("torchtitan", "test").can, "zero", "fsdp"));
  CHECK_FALSE(has(find_framework("torchtitan", "test").can, "zero", 1));
  CHECK(has(find_framework("mbench", "test").can, "zero", "oss+sdp"));
}

TEST_CASE("a framework that says nothing of a field has all its values, and lists none") {
  const Abilities can{{{"zero", {"0", "3"}}}};
  CHECK((can.has("zero", "3") && lists(can, "zero", "3")));
  CHECK_FALSE((can.has("zero", "2") || lists(can, "zero", "2")));
  CHECK((can.has("schedule", "zbv") && !lists(can, "schedule", "zbv")));
}
