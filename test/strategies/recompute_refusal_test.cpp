// What recompute by products refuses.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;

namespace {

Point point_of(const char* text) {
  return point_from_json(nlohmann::json::parse(text), "p: $");
}

}  // namespace

TEST_CASE("every second GEMM is kept of the layers whose order of GEMMs is known") {
  const auto gemms = [](auto change) {
    Point p = point_of(
        R"({"model": {"preset": "gpt-bytes-tiny", "family": "llama"}, "seq": 64, "recompute": "alternate_products"})");
    change(p);
    const auto refusal = strategies::why_not(p);
    if (!refusal) return std::string();
    CHECK(refusal->outcome == Outcome::unsupported);
    const std::string about = "recompute alternate_products of layers with ";
    REQUIRE(refusal->reason.starts_with(about));
    return refusal->reason.substr(about.size());
  };
  const auto part = [&](auto change) {
    return gemms([&](Point& p) {
      ModelParts parts = p.model.parts();
      change(parts);
      p.model.own_parts = parts;
    });
  };
  CHECK(gemms([](Point&) {}) == "");
  CHECK(gemms([](Point& p) { p.model.kv_heads = 2, p.tp = 2, p.sequence_parallel = true; }) == "");
  CHECK(gemms([](Point& p) { p.cp = 2, p.attention = AttentionKind::flash; }) == "");
  CHECK(part([](ModelParts& m) { m.activation = Activation::gelu; }) ==
        "activation gelu is not built into this binary, need activation swiglu, or recompute selective or full");
  CHECK(part([](ModelParts& m) { m.bias = true; }) ==
        "biases is not built into this binary, need bias false, or recompute selective or full");
  CHECK(part([](ModelParts& m) { m.norm_place = NormPlace::post; }) ==
        "norm_place post is not built into this binary, need norm_place pre, or recompute selective or full");
  CHECK(part([](ModelParts& m) { m.qk_norm = QkNorm::each_head; }) ==
        "norms of queries and keys is not built into this binary, need qk_norm false, or recompute selective or full");
  CHECK(gemms([](Point& p) { p.precision = Precision::fp8; }) == "");
  CHECK(gemms([](Point& p) { p.precision = Precision::fp8, p.fp8_parameters = true; }) ==
        "weights in FP8 only, whose rows are not separated, is not built into this binary, need "
        "precision.fp8_parameters false, or recompute "
        "selective or full");
  CHECK(gemms([](Point& p) { p.model.kv_heads = 2, p.tp = 4; }) ==
        "2 key and value heads over tp 4 is not built into this binary, need tp 2, or recompute selective or full");
  CHECK(gemms([](Point& p) { p.cp = 2, p.cp_communication = CpCommunication::all_to_all; }) ==
        "cp_communication all_to_all, whose attention core keeps keys, is not built into this binary, need recompute "
        "selective or "
        "full, or cp_communication ring and attention flash");
  CHECK(gemms([](Point& p) { p.model.experts = 4, p.model.active_experts = 2; }) ==
        "experts is not built into this binary, need recompute moe, selective or full");
}
