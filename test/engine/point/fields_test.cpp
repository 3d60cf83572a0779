#include "engine/point/fields.h"

#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "engine/point/field_docs.h"
#include "engine/point/point.h"
#include "engine/point/point_builder.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

TEST_CASE("every field and every choice has a meaning, and what a step computes has a part that it bears on") {
  // Of these a step's time and memory know nothing: how often it is measured, what is drawn, how long it may take.
  const std::set<std::string> free = {"iterations", "warmup",       "seed",         "learning_rate",
                                      "lr_warmup",  "weight_decay", "memory_limit", "max_seconds"};
  for (const PointField& field : point_fields()) {
    INFO(field.key);
    CHECK(field.doc.size() > 10);
    CHECK(field.doc.back() == '.');
    CHECK(field.bears_on.within({}) == free.contains(field.key));
    for (const FieldChoice& choice : field.choices) {
      INFO(choice.name);
      CHECK(choice.doc.size() > 5);
    }
  }
}

TEST_CASE("the schema describes every field and every choice of an enumeration") {
  const nlohmann::ordered_json schema = point_schema();
  for (const PointField& field : point_fields()) {
    INFO(field.key);
    CHECK(schema.at(field.key).at("description") == field.doc);
    if (!schema.at(field.key).contains("oneOf")) continue;
    for (const auto& choice : schema.at(field.key).at("oneOf"))
      CHECK(!choice.at("description").get<std::string>().empty());
  }
  CHECK(schema.at("schedule").at("oneOf").size() == 8);
}

TEST_CASE("what bears on no more than some parts of a step goes to its default, and nothing else") {
  Point p = point_from_json(
      R"({"model": "mixtral-bytes-tiny", "tp": 2, "pp": 4, "dp": 2, "ep": 2, "zero": 3, "recompute": "full",
    "schedule": "gpipe", "optimizer": "sgd", "moments_in_bf16": true, "memory_limit": 5, "offload": "all"})"_json,
      "test");
  const Point state = at_default(p, {BearsOn::state});
  CHECK(state.zero == Zero::none);
  CHECK(state.offload == Offload::none);
  CHECK(state.memory_limit == 0);
  CHECK(state.optimizer == OptimizerKind::sgd);
  CHECK(state.moments_in_bf16);
  CHECK(state.recompute == Recompute::full);
  CHECK(state.tp == 2);
  const Point mesh = at_default(p, kAddedWithinMesh);
  CHECK(mesh.schedule == ScheduleKind::one_f_one_b);
  CHECK(mesh.recompute == Recompute::none);
  CHECK(mesh.pp == 4);
  CHECK(mesh.ep == 2);
  CHECK(at_default(p, {BearsOn::experts}).ep == 1);
  Point kept = p;
  kept.memory_limit = 0;
  CHECK(at_default(p, {}) == kept);
}

TEST_CASE("points that differ in a layout have other hashes, those that differ in what is measured the same") {
  const Point p = point_from_json(R"({"model": "gpt-bytes-tiny", "seq": 64})"_json, "test");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    Point other = p;
    set_point_field(other, key, value, "test");
    return layout_hash(other, 1);
  };
  const std::uint64_t hash = layout_hash(p, 1);
  CHECK(layout_hash(p, 2) != hash);
  for (const char* key : {"tp", "micro_batch", "virtual_stages"}) CHECK(with(key, 2) != hash);
  CHECK(with("zero", 3) != hash);
  CHECK(with("recompute", "mlp") != hash);
  CHECK(with("sequence_parallel", true) != hash);
  CHECK(with("iterations", 77) == hash);
}

TEST_CASE("help says of a field what the table has, and refuses what is none with the nearest") {
  const std::string text = describe_field("cp_communication");
  CHECK_THAT(text, Contains("ring") && Contains("all_to_all") && Contains("Ulysses") && Contains("default  ring") &&
                       Contains("bears on micro batch"));
  CHECK_THAT(describe_field("seq"),
             Contains("unit     tokens") && Contains("1 to 16777216") && Contains("default  1024"));
  CHECK_THAT(describe_field("zero"), !Contains("](") && !Contains("`"));
  for (const PointField& field : point_fields()) {
    CHECK_THAT(list_fields(), Contains("  " + field.key + " "));
    CHECK_THAT(fields_page(), Contains("| `" + field.key + "` |"));
  }
  CHECK(fields_json().size() == point_fields().size());
  try {
    describe_field("zer");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK_THAT(e.what(), Contains("got \"zer\"") && Contains("zero"));
  }
}
