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
      Contains("paged_stash 1.1 with routing_imbalance 1.9, 18 pages of 64 rows on stage 0 where 24 are in use"));
  for (const std::string option : {"index_map_fusion", "grouped_experts"})
    CHECK_THAT(why(room + R"(, "device": "sim:8xH100-SXM5-80GB", "framework": {"preset": "megatron-core", ")" + option +
                   R"(": false})"),
               Contains(option + " false"));
  CHECK_THAT(why(both + R"(, "recompute": "full")"), Contains("keeps nothing within experts"));
  CHECK_THAT(why(both + R"(, "offload_activations": "moe_act")"), Contains("which takes the same tensors"));
  CHECK_THAT(why(room + R"(, "router": "balanced", "precision": "fp8")"), Contains("with precision fp8 is not built"));
}
