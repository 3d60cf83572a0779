// Which steps cannot be replayed or captured, and why not.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;

namespace {

Point point_of(const std::string& text) {
  return point_from_json(nlohmann::json::parse(text), "p.json: $");
}

}  // namespace

TEST_CASE("a step whose host reads the device is not replayed: the reason, and what could") {
  using Catch::Contains;
  const auto why = [](const std::string& fields) {
    const auto refusal =
        strategies::why_not(point_of(R"({"model": "mixtral-bytes-tiny", "seq": 64, "capture": true, )" + fields + "}"));
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  CHECK(why(R"("router": "balanced")") == "");
  CHECK(why(R"("router": "capacity:2")") == "");
  CHECK_THAT(why(R"("router": "learned")"), Contains("need router balanced or capacity:1, or capture false"));
  CHECK_THAT(why(R"("offload": "optimizer")"), Contains("need offload none or capture false"));
  CHECK(why(R"("precision": "bf16")") == "");
  Point p = point_of(R"({"model": "mixtral-8x7b", "seq": 64, "capture": true, "precision": "fp16"})");
  REQUIRE(p.model.parts().routing.balance_loss > 0);
  CHECK_THAT(strategies::why_not(p)->reason, Contains("need precision bf16 or capture false"));
}

TEST_CASE("parts that Megatron-Core captures, and those that it does not") {
  using Catch::Contains;
  const auto why = [](const std::string& model, const std::string& fields) {
    const auto refusal =
        strategies::why_not(point_of(R"({"seq": 64, "model": ")" + model + R"(", "capture": )" + fields + "}"));
    return refusal ? refusal->reason : "";
  };
  const std::string llama = "llama-bytes-tiny", mixtral = "mixtral-bytes-tiny";
  CHECK(why(llama, R"(["attention", "mlp"])") == "");
  CHECK(why(llama, R"("layer", "recompute": "selective")") == "");
  CHECK(why(mixtral, R"("attention+moe_router+moe_preprocess")") == "");
  CHECK(why(mixtral, R"("moe", "router": "capacity:1", "framework": "megatron-core")") == "");
  CHECK_THAT(why(mixtral, R"("moe", "framework": "megatron-core")"),
             Contains("need router capacity:1 or capture false"));
  CHECK_THAT(why(mixtral, R"("layer", "router": "learned")"), Contains("need router capacity:1 or capture false"));
  CHECK_THAT(why(mixtral, R"("attention", "router": "learned")"), Contains("is not built into this binary"));
  CHECK(why(mixtral, R"("attention", "router": "learned", "device": "sim:8xH100-SXM5-80GB")") == "");
  CHECK_THAT(why(llama, R"("moe_router")"), Contains("capture moe_router of llama-bytes-tiny without experts"));
  CHECK_THAT(why(mixtral, R"("mlp")"), Contains("without dense layers"));
  CHECK_THAT(why(llama, R"("attention", "recompute": "full")"), Contains("need recompute none or selective"));
  CHECK_THAT(why(mixtral, R"("moe_router", "recompute": "moe")"), Contains("capture moe_router with recompute moe"));
  CHECK(why(mixtral, R"("attention", "recompute": "moe")") == "");
  CHECK(why(llama, R"("attention", "offload": "optimizer", "optimizer": "adamw")") == "");
}

TEST_CASE("replicas of one process are whole models") {
  using Catch::Contains;
  const auto why = [](const std::string& fields) {
    const auto refusal = strategies::why_not(point_of(
        R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8, "replicas": "single_process", )" + fields + "}"));
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  CHECK(why(R"("dp": 4)") == "");
  CHECK_THAT(why(R"("dp": 4, "tp": 2)"), Contains("need tp 1 or replicas ranks"));
  CHECK_THAT(why(R"("dp": 4, "zero": 1)"), Contains("need zero 0 or replicas ranks"));
  CHECK_THAT(why(R"("dp": 4, "capture": true)"), Contains("need replicas ranks or capture false"));
}
