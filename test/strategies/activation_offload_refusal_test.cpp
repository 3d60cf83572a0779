// What activations in host memory do not go with, and what is offered.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

Point point_of(const std::string& fields, const std::string& model = R"("gpt-bytes-tiny")") {
  return point_from_json(
      json::parse(fmt::format(R"({{"model": {}, "seq": 64, "global_batch": 8, {}}})", model, fields)), "p.json: $");
}

std::string why(const std::string& fields, const std::string& model = R"("gpt-bytes-tiny")") {
  const auto refusal = strategies::why_not(point_of(fields, model));
  return refusal ? refusal->reason : "";
}

const std::string kExperts = R"("mixtral-bytes-4m")";

}  // namespace

TEST_CASE("activations in host memory: parts that a model lacks, or of which recompute leaves nothing") {
  using Catch::Contains;
  CHECK(why(R"("offload_activations": "moe_act")") ==
        "offload_activations moe_act of gpt-bytes-tiny without experts, need offload_activations core_attn or none");
  CHECK(why(R"("offload_activations": "expert_fc1+moe_act")", kExperts) == "");
  CHECK_THAT(why(R"("offload_activations": "expert_fc1", "recompute": "moe")", kExperts),
             Contains("which keeps nothing within experts, need recompute moe_act or offload_activations none"));
  CHECK(why(R"("offload_activations": "expert_fc1", "recompute": "moe_act")", kExperts) == "");
  CHECK_THAT(why(R"("offload_activations": "core_attn", "recompute": "full")"),
             Contains("which keeps other tensors of a layer, need offload_activations layers:1 or none, or recompute "
                      "none or selective"));
  CHECK(why(R"("offload_activations": "layers:1", "recompute": "full")") == "");
  CHECK_THAT(why(R"("offload_activations": "qkv_linear", "recompute": "norm")"),
             Contains("which makes the input of linear layers again"));
  CHECK(why(R"("offload_activations": "attn_norm+core_attn", "recompute": "norm")") == "");
  CHECK_THAT(why(R"("offload_activations": "layers:9")"), Contains("of chunks with at most"));
  CHECK_THAT(why(R"("min_offloaded_tensor_size": 5)"), Contains("with offload_activations none"));
}

TEST_CASE("activations in host memory: what is not built") {
  using Catch::Contains;
  const auto unsupported = [](const std::string& fields, const std::string& model = R"("gpt-bytes-tiny")") {
    const auto refusal = strategies::why_not(point_of(R"("offload_activations": "core_attn", )" + fields, model));
    REQUIRE(refusal);
    CHECK(refusal->outcome == Outcome::unsupported);
    return refusal->reason;
  };
  CHECK_THAT(unsupported(R"("capture": true)"), Contains("with capture true"));
  CHECK_THAT(unsupported(R"("capture": "attention")"), Contains("with capture attention"));
  CHECK_THAT(unsupported(R"("dp": 2, "replicas": "single_process")"), Contains("with replicas single_process"));
  CHECK_THAT(unsupported(R"("dp": 2, "ep": 2, "overlap_moe": true)", kExperts), Contains("with overlap_moe"));
  CHECK_THAT(
      unsupported(R"("dropout": 0)", R"({"preset": "gpt-bytes-tiny", "position": "rotary", "branches": "parallel"})"),
      Contains("of branches that run in parallel"));
}

TEST_CASE("activations in host memory are offered by name, parts and layers that can be") {
  const auto offered = [](const std::string& fields, const std::string& model = R"("gpt-bytes-tiny")") {
    const Point p = point_of(fields, model);
    const auto choices = strategies::activation_offload().choices(p, 8);
    REQUIRE(choices.size() == 1);
    CHECK(choices[0].by_name);
    for (const json& value : choices[0].values) {
      INFO(value.dump());
      json changed = json(point_to_json(p));
      changed["offload_activations"] = value;
      CHECK(strategies::can_be(point_from_json(changed, "p")));
    }
    return json(choices[0].values);
  };
  const std::int64_t layers = point_of(R"("dp": 1)").model.layers;
  json want = {"none", "core_attn+attn_proj", "attn_norm+core_attn+attn_proj+mlp_norm"};
  for (const std::int64_t n : {layers / 2, layers - 1})
    if (const json value = fmt::format("layers:{}", n);
        n > 0 && std::find(want.begin(), want.end(), value) == want.end())
      want.push_back(value);
  CHECK(offered(R"("dp": 1)") == want);
  CHECK(offered(R"("recompute": "full")").size() == want.size() - 2);
  const json experts = offered(R"("dp": 1)", kExperts);
  CHECK(std::find(experts.begin(), experts.end(), "expert_fc1+moe_act") != experts.end());
  const json whole = offered(R"("recompute": "moe")", kExperts);
  CHECK(std::find(whole.begin(), whole.end(), "moe_act") == whole.end());
}
