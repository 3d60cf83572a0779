// What sharded state and offload refuse and offer.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

Point point_of(const std::string& text) {
  return point_from_json(json::parse(text), "p.json: $");
}

}  // namespace

TEST_CASE("Adafactor does not go with biases of experts that are cut both ways") {
  Point p =
      point_from_json(nlohmann::json::parse(R"({"model": {"family": "mixtral", "layers": 2, "hidden": 64, "heads": 4,
      "kv_heads": 4, "ffn": 64, "vocab": 128, "positions": 64, "experts": 4, "active_experts": 2, "bias": ["experts"]},
      "seq": 64, "tp": 4, "sequence_parallel": true, "ep": 2, "etp": 2, "optimizer": "adafactor"})"),
                      "spec");
  const auto refusal = strategies::why_not(p);
  REQUIRE(refusal);
  CHECK_THAT(refusal->reason, Catch::Contains("biases of experts, ep 2 and etp 2"));
  p.etp = 1;
  CHECK(strategies::can_be(p));
  p.etp = 4, p.ep = 1;
  CHECK(strategies::can_be(p));
}

TEST_CASE(
    "copies of sharded state: of state that is sharded, by divisors of dp and of the ranks that have the same "
    "experts") {
  using Catch::Contains;
  const auto point = [](const std::string& fields, const char* model = "gpt-bytes-tiny") {
    return point_of(fmt::format(R"({{"model": "{}", "seq": 64, "global_batch": 384, {}}})", model, fields));
  };
  const auto why = [&](const std::string& fields, const char* model = "gpt-bytes-tiny") {
    const auto refusal = strategies::why_not(point(fields, model));
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  for (const char* zero : {"1", "2", "3", R"("oss")", R"("oss+sdp")", R"("fsdp")", R"("fsdp", "fsdp_no_sync": true)"})
    for (const int n : {1, 2, 4})
      CHECK(why(fmt::format(R"("dp": 4, "optimizer_instances": {}, "zero": {})", n, zero)) == "");
  CHECK(
      why(R"("dp": 4, "optimizer_instances": 2)") ==
      "optimizer_instances 2 with zero 0, where every rank has all state, need zero 1, 2, 3, fsdp, oss or oss+sdp, or "
      "optimizer_instances 1");
  CHECK(why(R"("dp": 6, "optimizer_instances": 4, "zero": 1)") ==
        "optimizer_instances 4 does not divide dp 6, need optimizer_instances 3 or 6");
  CHECK_THAT(why(R"("dp": 4, "optimizer_instances": 8, "zero": 1)"),
             Contains("does not divide dp 4, need optimizer_instances 4"));
  CHECK_THAT(why(R"("dp": 4, "optimizer_instances": 2, "replicas": "single_process")"),
             Contains("with replicas single_process"));
  constexpr const char* kExperts = "mixtral-bytes-4m";
  CHECK(why(R"("dp": 8, "zero": 1, "ep": 2, "optimizer_instances": 4)", kExperts) == "");
  CHECK_THAT(why(R"("dp": 8, "zero": 1, "ep": 4, "optimizer_instances": 4)", kExperts),
             Contains("optimizer_instances 4 does not divide the 2 ranks that have the same experts") &&
                 Contains("need optimizer_instances 2"));

  const auto offered = [&](const std::string& fields, const char* model = "gpt-bytes-tiny") {
    const Point p = point(fields, model);
    std::vector<std::int64_t> values;
    for (const strategies::Choice& choice : strategies::sharded_state().choices(p, 64))
      if (choice.field == "optimizer_instances")
        for (const json& value : choice.values) {
          values.push_back(value);
          Point other = p;
          other.optimizer_instances = value;
          INFO(model << " " << fields << ", optimizer_instances " << value.dump());
          CHECK_FALSE(strategies::why_not(other));
        }
    return values;
  };
  using Values = std::vector<std::int64_t>;
  CHECK(offered(R"("dp": 16)") == Values{1});  // of whole state
  CHECK(offered(R"("dp": 8, "zero": 1)") == Values{1});
  CHECK(offered(R"("dp": 16, "zero": 1)") == Values{1, 2});  // a copy of 8 neighbours
  CHECK(offered(R"("dp": 128, "zero": "fsdp")") == Values{1, 2, 16});
  CHECK(offered(R"("dp": 8, "cp": 2, "attention": "flash", "zero": 3)") == Values{1, 2});
  CHECK(offered(R"("dp": 16, "tp": 2, "zero": 2)") == Values{1, 4});
  CHECK(offered(R"("dp": 4, "tp": 8, "zero": 2)", "gpt2-345m") == Values{1});  // of 8 no copy would be sharded
  CHECK(offered(R"("dp": 6, "zero": 1)") == Values{1});
  CHECK(offered(R"("dp": 16, "zero": 1, "ep": 4)", kExperts) == Values{1, 2});
  CHECK(offered(R"("dp": 16, "zero": 1, "ep": 8)", kExperts) == Values{1, 2});
  CHECK(offered(R"("dp": 24, "zero": 1, "ep": 4)", kExperts) == Values{1, 3});
  CHECK(offered(R"("dp": 24, "zero": 1, "ep": 8)", kExperts) == Values{1, 3});
  CHECK(offered(R"("dp": 16, "tp": 2, "zero": 1, "ep": 8)", kExperts) == Values{1});  // 2 ranks have the same experts
}

TEST_CASE("offload: weights only where they are sharded, and nothing that a device replays") {
  using Catch::Contains;
  const auto why = [](const std::string& fields) {
    const auto refusal = strategies::why_not(point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, )" + fields + "}"));
    if (!refusal) return std::string();
    CHECK(refusal->outcome == Outcome::infeasible);
    return refusal->reason;
  };
  for (const char* zero : {"0", "1", "2", "3", R"("oss")", R"("oss+sdp")", R"("fsdp")"})
    CHECK(why(fmt::format(R"("offload": "optimizer", "zero": {})", zero)) == "");
  CHECK(why(R"("offload": "optimizer", "offload_fraction": 0.5)") == "");
  CHECK_THAT(why(R"("offload_fraction": 0.5)"),
             Contains("offload_fraction 0.5 with offload none, need offload optimizer or offload_fraction 1"));
  CHECK_THAT(why(R"("offload": "optimizer", "offload_fraction": 0)"),
             Contains("offload_fraction 0 with offload optimizer, need offload_fraction 1"));
  const auto part = strategies::why_not(point_of(
      R"({"model": "gpt-bytes-tiny", "seq": 64, "offload": "all+gradients", "zero": 3, "offload_fraction": 0.5})"));
  CHECK_THAT(part.value().reason, Contains("offload_fraction 0.5 with offload all+gradients is not built into"));
  CHECK(why(R"("offload": "all", "zero": 3)") == "");
  CHECK(why(R"("offload": "all", "zero": "fsdp")") == "");
  CHECK_THAT(
      why(R"("offload": "all", "zero": 2)"),
      Contains("offload all with zero 2, whose weights are all there, need zero 3 or fsdp, or offload optimizer"));
  CHECK_THAT(
      why(R"("offload": "all")"),
      Contains("offload all with zero 0, whose weights are all there, need zero 3 or fsdp, or offload optimizer"));
  for (const char* zero : {"0", "1", "2", "3", R"("oss")", R"("oss+sdp")", R"("fsdp")"})
    for (const char* precision : {"bf16", "fp16", "fp8"})
      CHECK(why(fmt::format(R"("offload": "moments", "precision": "{}", "zero": {})", precision, zero)) == "");
  CHECK_THAT(why(R"("offload": "moments", "precision": "f32")"),
             Contains("offload moments with precision f32, whose weights have no f32 originals, need precision "
                      "bf16 or fp16, or offload optimizer"));
  CHECK_THAT(why(R"("offload": "optimizer", "capture": true)"),
             Contains("offload optimizer") && Contains("need offload none or capture false"));
}
