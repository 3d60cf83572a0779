// Whose each field of a point is, and which choices strategies offer.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/platform/registry.h"
#include "engine/point/fields.h"
#include "strategies/strategies.h"
#include "sweeps/spec/options.h"
#include "sweeps/spec/spec.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

Point point_of(const std::string& text) {
  return point_from_json(json::parse(text), "p.json: $");
}

Point tiny() {
  return point_of(R"({"model": "gpt-bytes-tiny", "seq": 64})");
}

}  // namespace

TEST_CASE("every field that decides what is trained or how it is laid out is one strategy's") {
  std::map<std::string, std::string> owner;
  for (const strategies::Strategy& s : strategies::all_strategies())
    for (const std::string_view field : s.fields) {
      INFO(s.name << " " << field);
      CHECK(owner.emplace(field, s.name).second);
      CHECK(std::count(point_keys().begin(), point_keys().end(), field) == 1);
    }
  for (const std::string& key : point_keys()) {
    const bool measuring = key == "iterations" || key == "warmup" || key == "memory_limit" || key == "max_seconds" ||
                           key == "env" || key == "machine" || key == "device" || key == "ranks_per_node" ||
                           key == "placement" || key == "background_load";
    INFO(key);
    CHECK(owner.contains(key) != measuring);
  }
}

TEST_CASE("each choice that a strategy offers can be, and no divisor is missing") {
  Point p = point_of(R"({"model": "gpt2-345m", "seq": 1024, "global_batch": 24, "dp": 2})");
  std::map<std::string, std::size_t> count;
  for (const strategies::Strategy& s : strategies::all_strategies()) {
    if (!s.choices) continue;
    for (const strategies::Choice& choice : s.choices(p, 8)) {
      const std::vector<std::string> together = sweeps::split_fields(choice.field);
      for (const std::string& field : together) CHECK(std::count(s.fields.begin(), s.fields.end(), field) == 1);
      count[choice.field] = choice.values.size();
      for (const json& value : choice.values) {
        json fields = json(point_to_json(p));
        for (std::size_t i = 0; i < together.size(); ++i)
          fields[together[i]] = together.size() == 1 ? value : value.at(i);
        INFO(choice.field << " " << value.dump());
        CHECK_FALSE(strategies::why_not(point_from_json(fields, "p: $")));
      }
    }
  }
  CHECK(count.at("tp") == 4);  // 1 2 4 8 of 16 heads, 8 devices
  CHECK(count.at("dp") == 6);  // 1 2 3 4 6 8 of 24 samples, and not 12
  CHECK(count.at("pp") == 8);  // 1 to 8 of 24 layers: 5 and 7 with stages that differ by one
  CHECK(count.at("recompute") == 3);
  CHECK(count.at("cp") == 1);                // by ring, attention core cannot
  CHECK(count.at("cp_communication") == 1);  // of one rank
  p.cp_communication = CpCommunication::all_to_all;
  CHECK(strategies::context().choices(p, 8).front().values.size() == 4);  // 1 2 4 8 of 16 heads
  p.attention = AttentionKind::flash, p.cp_communication = CpCommunication::ring;
  CHECK(strategies::context().choices(p, 8).front().values.size() == 4);
  CHECK(count.at("zero,fsdp_no_sync") == 5);
  CHECK(count.at("optimizer_instances") == 1);      // of whole state
  CHECK(count.at("offload") == 2);                  // moments with 16-bit weights, the others with sharded state
  CHECK(count.at("schedule,virtual_stages") == 1);  // of a single stage
  CHECK(count.at("micro_batch_group") == 1);
  CHECK(count.at("first_stage_layers,last_stage_layers") == 1);
  p.dp = 1;
  CHECK(strategies::sharded_state().choices(p, 8).front().values.size() == 1);
  p.zero = Zero::stage_3;
  const auto offloads = [&] { return json(strategies::sharded_state().choices(p, 8).back().values); };
  CHECK(offloads() == json({"none", "optimizer", "optimizer+gradients", "all", "all+gradients"}));
  p.precision = Precision::bf16, p.zero = Zero::stage_2;
  CHECK(offloads() == json({"none", "moments", "optimizer", "optimizer+gradients"}));
  p.tp = 2, p.zero = Zero::fsdp;
  CHECK(offloads() == json({"none", "moments", "optimizer", "all"}));
}

TEST_CASE("graphs of parts are offered by name, of those that the model has and that can be captured") {
  const auto offered = [](const std::string& model, const std::string& fields) {
    const auto all = strategies::graph().choices(
        point_of(fmt::format(R"({{"model": "{}", "seq": 64, "global_batch": 8, {}}})", model, fields)), 8);
    REQUIRE(all.size() == 1);
    CHECK(all[0].by_name);
    return json(all[0].values);
  };
  CHECK(offered("gpt-bytes-tiny", R"("dp": 2)") == json({false, "attention", "attention+mlp", "layer"}));
  CHECK(offered("gpt-bytes-tiny", R"("recompute": "full")") == json({false}));
  CHECK(offered("gpt-bytes-tiny", R"("offload_activations": "core_attn")") == json({false}));
  CHECK(offered("mixtral-bytes-4m", R"("dp": 2)") ==
        json({false, "attention", "attention+moe_router", "attention+moe_router+moe_preprocess", "layer"}));
  CHECK(offered("mixtral-bytes-4m", R"("dp": 2, "ep": 2, "ep_communication": "all_gather")") ==
        json({false, "attention", "attention+moe_router", "layer"}));
}

TEST_CASE("how tokens meet the experts of other ranks is offered by name alone, where it can differ") {
  const auto offered = [](const std::string& fields) {
    const Point p =
        point_of(fmt::format(R"({{"model": "mixtral-bytes-4m", "seq": 64, "global_batch": 8, {}}})", fields));
    const strategies::Choice last = strategies::expert().choices(p, 8).back();
    CHECK(last.field == "ep_communication");
    CHECK(last.by_name);
    return last.values;
  };
  using Values = std::vector<json>;
  CHECK(offered(R"("dp": 2, "ep": 2)") == Values{"all_to_all", "all_gather", "flex"});
  CHECK(offered(R"("dp": 2)") == Values{"all_to_all"});
  CHECK(offered(R"("dp": 2, "ep": 2, "router": "capacity:2")") == Values{"all_to_all"});
}

TEST_CASE("the specs that come with mbench can be; those of published figures too") {
  namespace fs = std::filesystem;
  const auto points = [](const fs::path& path) {
    sweeps::SpecOptions options;
    options.path = path.string();
    return sweeps::read_spec(options).points;
  };
  for (const char* name : {"quickstart.json", "gpt345m.json", "bert345m.json"})
    for (const sweeps::SpecPoint& p : points(fs::path(MBENCH_SOURCE_DIR) / "configs" / name)) {
      INFO(name << " " << p.label);
      CHECK_FALSE(strategies::why_not(p.point));
    }
  for (const auto& entry : fs::directory_iterator(MBENCH_SOURCE_DIR "/configs/published")) {
    if (entry.path().extension() != ".json") continue;
    for (const sweeps::SpecPoint& p : points(entry.path())) {
      INFO(entry.path().string() << " " << p.label);
      CHECK_FALSE(strategies::why_not(p.point));
    }
  }
}

TEST_CASE("schedules that split backward are offered with sharded gradients where the framework names both") {
  Point p = point_of(R"({"model": "llama-3-8b", "seq": 1024, "global_batch": 16, "dp": 2, "pp": 4, "precision": "bf16",
                         "dropout": 0, "attention": "flash"})");
  const auto schedules = [&](Zero zero, bool no_sync = false) {
    p.zero = zero, p.fsdp_no_sync = no_sync;
    std::set<std::string> names;
    for (const strategies::Choice& choice : strategies::pipeline().choices(p, 8))
      if (choice.field == "schedule,virtual_stages")
        for (const auto& value : choice.values) names.insert(value.at(0).get<std::string>());
    return names;
  };
  const std::set<std::string> whole = schedules(Zero::stage_1);
  for (const char* split : {"zb-h1", "zbv", "v-half", "v-min"}) {
    INFO(split);
    CHECK(whole.contains(split));
    CHECK(schedules(Zero::fsdp, true).contains(split));  // gradients accumulate whole
    for (const Zero zero : {Zero::stage_2, Zero::stage_3, Zero::fsdp}) CHECK_FALSE(schedules(zero).contains(split));
  }
  for (const Zero zero : {Zero::stage_2, Zero::stage_3})
    for (const char* plain : {"1f1b", "gpipe", "interleaved"}) CHECK(schedules(zero).contains(plain));
}
