// Static room for experts (expert_rank_capacity) and pages for what they keep (paged_stash): what can be, and why the rest cannot.
#include <nlohmann/json.hpp>

#include "engine/platform/registry.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

TEST_CASE("static room for experts, and pages, where Megatron-Core has them") {
  using Catch::Contains;
  const auto why = [](const std::string& fields) {
    json spec = json::parse(R"({"model": "mixtral-bytes-4m", "seq": 64, "micro_batch": 2, "dp": 2, "ep": 2,
      "global_batch": 4, "ep_communication": "flex", "router": "learned", "precision": "bf16"})");
    spec.update(json::parse("{" + fields + "}"));
    const auto refusal = strategies::why_not(point_from_json(spec, "p.json: $"));
    return refusal ? refusal->reason : "";
  };
  const std::string room = R"("expert_rank_capacity": 1.5)", both = room + R"(, "paged_stash": 1.1)",
                    on_h100 = R"(, "framework": "megatron-core", "device": "sim:8xH100-SXM5-80GB")";
  CHECK(why(room) == "");
  CHECK(why(both) == "");
  CHECK(why(both + on_h100 + R"(, "capture": true)") == "");
  CHECK(why(both + on_h100 + R"(, "capture": "attention+moe", "routing_imbalance": 1.05)") == "");
  CHECK_THAT(why(room + R"(, "capture": true)"), Contains("expert_rank_capacity 1.5 on cpu is not built"));
  CHECK_THAT(why(R"("paged_stash": 1.1)"), Contains("paged_stash 1.1 without expert_rank_capacity"));
  CHECK_THAT(why(room + R"(, "ep_communication": "all_to_all")"), Contains("whose tensors follow the rows"));
  CHECK_THAT(why(room + R"(, "ep": 1)"), Contains("with ep 1"));
  CHECK_THAT(why(R"("expert_rank_capacity": 0.5)"), Contains("some rank gets the mean, and every step is run again"));
  CHECK_THAT(why(room + on_h100 + R"(, "routing_imbalance": 1.6)"), Contains("routing_imbalance 1.6: every step"));
  CHECK_THAT(
      why(R"("expert_rank_capacity": 2, "paged_stash": 1.1, "routing_imbalance": 1.9)" + on_h100),
      Contains("paged_stash 1.1 with routing_imbalance 1.9, 18 pages of 64 rows of 1536 bytes on stage 0, and 2 are "
               "free where a tensor wants 8: every step is run again"));
  for (const std::string option : {"index_map_fusion", "grouped_experts"})
    CHECK_THAT(why(room + R"(, "device": "sim:8xH100-SXM5-80GB", "framework": {"preset": "megatron-core", ")" + option +
                   R"(": false})"),
               Contains(option + " false"));
  CHECK_THAT(why(both + R"(, "recompute": "full")"), Contains("keeps nothing within experts"));
  CHECK_THAT(why(both + R"(, "offload_activations": "moe_act")"), Contains("which takes the same tensors"));
  const std::string fp8 = R"(, "router": "balanced", "precision": "fp8")";
  CHECK(why(room + fp8) == "");
  CHECK(why(both + fp8) == "");
  CHECK(why(both + R"(, "adapter": "lora:4")") == "");
  CHECK(why(both + R"(, "overlap_moe": true, "delay_wgrad": true, "global_batch": 8)") == "");
  CHECK_THAT(why(room + R"(, "paged_stash_host": 1)"), Contains("paged_stash_host 1 without paged_stash"));
  CHECK_THAT(why(room + R"(, "paged_stash": 0.5)"),
             Contains("8 pages of 64 rows of 1536 bytes on stage 0, and 0 are free where a tensor wants 4"));
  CHECK_THAT(why(room + R"(, "paged_stash": 0.5, "paged_stash_host": 0.05)"),
             Contains("paged_stash 0.5 and paged_stash_host 0.05 with"));
  CHECK(why(room + R"(, "paged_stash": 0.5, "paged_stash_host": 1.1)") == "");
  CHECK_THAT(why(both + on_h100 + R"(, "paged_stash_host": 1, "capture": true)"),
             Contains("paged_stash_host 1 with capture true is not built"));
}

TEST_CASE("pages are as many as rows of a size wait, by what experts keep of them") {
  using Pages = ExpertRoom::Pages;
  const auto room = [](const std::string& fields) {
    // 256 balanced rows on a rank, 64 of each of 4 experts; 192 columns come in, fc1 makes 768 and fc2 takes 384. 4 layers wait.
    json spec = json::parse(R"({"model": "mixtral-bytes-4m", "seq": 64, "micro_batch": 2, "dp": 2, "ep": 2,
      "global_batch": 4, "ep_communication": "flex", "precision": "bf16", "expert_rank_capacity": 1.5})");
    spec.update(json::parse("{" + fields + "}"));
    return strategies::make_plan(point_from_json(spec, "p.json: $")).expert_room;
  };
  const auto pages = [&](const std::string& fields) { return room(fields).pages.at(0); };
  CHECK(room("").pages.empty());
  CHECK(pages(R"("paged_stash": 1.1)") == std::vector<Pages>{{384, 18, 0}, {768, 18, 0}, {1536, 18, 0}});
  CHECK(pages(R"("paged_stash": 1.1, "recompute": "moe_act")") == std::vector<Pages>{{384, 18, 0}, {1536, 18, 0}});
  // Codes of a byte in place of inputs of two.
  CHECK(pages(R"("paged_stash": 1.1, "precision": "fp8")") ==
        std::vector<Pages>{{192, 18, 0}, {384, 18, 0}, {1536, 18, 0}});
  // And an expert's scales: 4 rows of whole blocks, 256 bytes for 192 columns, and 384 for as many.
  CHECK(pages(R"("paged_stash": 4, "precision": {"preset": "fp8", "fp8_recipe": "mxfp8"})") ==
        std::vector<Pages>{{192, 64, 0}, {256, 4, 0}, {384, 68, 0}, {1536, 64, 0}});
  // Two codes a byte, and scales of 64 rows.
  CHECK(pages(R"("paged_stash": 8, "precision": "nvfp4")") ==
        std::vector<Pages>{{96, 128, 0}, {192, 128, 0}, {512, 4, 0}, {768, 4, 0}, {1536, 128, 0}});
  // A layer in bf16 keeps what others do not.
  CHECK(pages(R"("paged_stash": 1.1, "precision": {"preset": "fp8", "first_layers_in_bf16": 1})") ==
        std::vector<Pages>{{192, 14, 0}, {384, 18, 0}, {768, 5, 0}, {1536, 18, 0}});
  // Low-rank activations of four numbers, of both layers.
  CHECK(pages(R"("paged_stash": 1.1, "adapter": "lora:4")") ==
        std::vector<Pages>{{8, 36, 0}, {384, 18, 0}, {768, 18, 0}, {1536, 18, 0}});
  // A frozen fc1 wants no input in FP8.
  CHECK(pages(R"("paged_stash": 1.1, "adapter": "lora:4,targets=fc2", "precision": "fp8")") ==
        std::vector<Pages>{{8, 18, 0}, {768, 18, 0}, {1536, 18, 0}});
  // Where a backward and a forward take turns, as many wait.
  CHECK(pages(R"("paged_stash": 1.1, "overlap_moe": true, "global_batch": 8)") ==
        std::vector<Pages>{{384, 18, 0}, {768, 18, 0}, {1536, 18, 0}});
  const ExpertRoom spills = room(R"("paged_stash": 0.5, "paged_stash_host": 1.1)"),
                   stays = room(R"("paged_stash": 1.1, "paged_stash_host": 0.5)");
  CHECK(spills.pages.at(0).front() == Pages{384, 8, 18});
  CHECK(spills.spills);
  CHECK(stays.pages.at(0).front() == Pages{384, 18, 8});
  CHECK(!stays.spills);
}
