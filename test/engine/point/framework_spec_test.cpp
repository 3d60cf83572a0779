#include "engine/point/framework_spec.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/framework/framework.h"
#include "engine/point/point.h"
#include "engine/point/point_builder.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;
using nlohmann::json;

namespace {

Point point_of(const std::string& fields) {
  return point_from_json(
      json::parse(R"({"model": "gpt-bytes-tiny", "seq": 64)" + (fields.empty() ? "" : ", " + fields) + "}"),
      "p.json: $");
}

std::string text_of(const std::string& fields) {
  return name_of(point_of(fields).framework);
}

std::string refusal(const std::string& fields) {
  try {
    point_of(fields);
  } catch (const Error& e) {
    return e.what();
  }
  FAIL_CHECK("nothing was refused: " << fields);
  return "";
}

}  // namespace

TEST_CASE("a framework is a name or an object, written as short as it can be") {
  CHECK(text_of("") == "mbench");
  CHECK(write_framework(point_of(R"("framework": "megatron-core")").framework) == "megatron-core");
  CHECK(write_framework(
            point_of(R"("framework": {"preset": "megatron-core", "host": "megatron-core", "rope_fusion": true})")
                .framework) == "megatron-core");
  const auto changed = point_of(R"("framework": {"preset": "megatron-core", "host": "mbench", "rope_fusion": false})");
  CHECK(json(write_framework(changed.framework)) ==
        R"({"preset": "megatron-core", "host": "mbench", "rope_fusion": false})"_json);
  CHECK(name_of(changed.framework) == "megatron-core, host mbench, rope_fusion false");
  CHECK(point_of(R"("framework": "megatron-core, host mbench, rope_fusion false")") == changed);
  CHECK(point_from_json(json(point_to_json(changed)), "again: $") == changed);
}

TEST_CASE("former words say what they said: graph what is kept, framework the host, fields the options") {
  CHECK(text_of(R"("graph": "eager")") == "megatron-2022, host mbench");
  CHECK(text_of(R"("graph": "eager", "framework": "megatron")") == "megatron-2022");
  CHECK(text_of(R"("framework": "megatron", "graph": "eager")") == "megatron-2022");
  CHECK(text_of(R"("framework": "megatron")") == "mbench, host megatron-2022");
  CHECK(text_of(R"("framework": "megatron_core", "graph": "megatron_core", "grouped_experts": false)") ==
        "megatron-core, grouped_experts false");
  CHECK(text_of(R"("grouped_experts": false, "graph": "megatron_core")") ==
        "megatron-core, host mbench, grouped_experts false");
  CHECK(text_of(R"("framework": "torchtitan", "cross_entropy_fusion": "torch")") ==
        "torchtitan, cross_entropy_fusion torch");
  CHECK(text_of(R"("framework": "internevo")") == "mbench, host internevo-2023");
  CHECK(
      text_of(
          R"("framework": "internevo", "graph": "megatron_core", "gradient_accumulation_fusion": false, "mask_in_batch": false)") ==
      "internevo-2023");
  // A part holds whichever comes first, it or the framework.
  CHECK(text_of(R"("grouped_experts": false, "framework": "megatron-core")") == "megatron-core, grouped_experts false");
  CHECK(text_of(R"("framework": "megatron-core", "framework.grouped_experts": false)") ==
        "megatron-core, grouped_experts false");
  CHECK(text_of(R"("framework": "./mine.json", "graph": "eager")") == "megatron-2022, host ./mine.json");
}

TEST_CASE("a point is written in former words too, and has the id that they gave it") {
  const Point p = point_of(R"("framework": {"preset": "megatron-core", "deterministic": true})");
  const auto words = point_in_words(p);
  CHECK(words.at("graph") == "megatron_core");
  CHECK(words.at("deterministic") == true);
  CHECK(words.at("rope_fusion") == true);
  CHECK(words.at("cross_entropy_fusion") == "te");
  CHECK(words.at("framework") == "megatron-core, deterministic true");
  CHECK_FALSE(point_to_json(p).contains("graph"));
  // Ids of stored baselines, as they were before a framework was one field.
  const auto id = [](const std::string& fields) {
    return point_id(point_of(fields + R"(, "device": "sim:1xA100-SXM4-80GB")"));
  };
  CHECK(id(R"("graph": "eager")") == "1511987e0ed0d6ea");
  CHECK(id(R"("graph": "megatron_core", "framework": "megatron_core", "rope_fusion": false)") == "d5423d56a84f1baa");
  CHECK(id(R"("framework": {"preset": "megatron-core", "rope_fusion": false})") == "d5423d56a84f1baa");
  CHECK(
      id(R"("framework": "internevo", "graph": "megatron_core", "gradient_accumulation_fusion": false, "mask_in_batch": false)") ==
      "2bb84a1c3b7f773b");
}

TEST_CASE("every pair of former words and options comes back from what it is now") {
  for (const char* graph : {"fused", "eager", "megatron_core"})
    for (const char* framework : {"mbench", "megatron", "megatron_core", "torchtitan", "internevo"})
      for (const auto& options : std::vector<std::map<std::string, std::string>>{
               {},
               {{"cross_entropy_fusion", "none"}},
               {{"gradient_accumulation_fusion", "false"}, {"mask_in_batch", "false"}},
               {{"deterministic", "true"}}}) {
        const FormerWords words{graph, framework, options};
        const FrameworkSpec spec = from_former(words, "test");
        INFO(name_of(spec));
        CHECK(former_words(spec) == words);
        CHECK(read_framework(json(write_framework(spec)), "test") == spec);
        CHECK(read_framework(name_of(spec), "test") == spec);
      }
}

TEST_CASE("what no framework has is refused where it stands") {
  CHECK_THAT(refusal(R"("framework": "megatron-cor")"),
             Contains("[p.json: $.framework]") && Contains("did you mean \"megatron-core\"?"));
  CHECK_THAT(refusal(R"("framework": {"preset": "megatron-core", "rope_fussion": false})"),
             Contains("[p.json: $.framework.rope_fussion]") && Contains("did you mean \"rope_fusion\"?"));
  CHECK_THAT(refusal(R"("framework": {"preset": "megatron-core", "rope_fusion": 3})"),
             Contains("[p.json: $.framework.rope_fusion]"));
  CHECK_THAT(refusal(R"("framework": {"preset": "megatron-core", "rope_fusion": "false"})"),
             Contains("[p.json: $.framework.rope_fusion]"));
  CHECK_THAT(refusal(R"("framework": {"host": "nobody"})"), Contains("[p.json: $.framework.host] no such framework"));
  CHECK_THAT(refusal(R"("framework": 7)"), Contains("wrong type"));
  CHECK_THAT(refusal(R"("framework": "megatron-core, deterministic")"), Contains("need an option and its value"));
  CHECK_THAT(refusal(R"("graph": "egaer")"), Contains("[p.json: $.graph]") && Contains("did you mean \"eager\"?"));
}
