// What is refused of forms of attention that layers may have.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

// Why a point with such a model cannot be; empty if it can.
std::string why(const std::string& model, const std::string& fields = "") {
  const auto refusal = strategies::why_not(
      point_from_json(nlohmann::json::parse(R"({"seq": 64, )" + fields + R"("model": )" + model + "}"), "p: $"));
  return refusal ? refusal->reason : "";
}

}  // namespace

TEST_CASE("norms that need all heads, and gammas of each head, are of groups that are whole on a rank") {
  for (const char* norm : {"all_heads", "layer_norm_by_head"}) {
    const std::string model = fmt::format(R"({{"preset": "llama-bytes-tiny", "kv_heads": 2, "qk_norm": "{}"}})", norm);
    CHECK(why(model, R"("tp": 2, )") == "");
    CHECK_THAT(why(model, R"("tp": 4, )"), Contains("of 2 key and value heads over tp 4") && Contains("need tp"));
  }
  CHECK(why(R"({"preset": "llama-bytes-tiny", "kv_heads": 2, "qk_norm": "layer_norm"})", R"("tp": 4, )") == "");
}

TEST_CASE("latent attention scales scores, and experts have no xIELU") {
  CHECK(why(R"({"preset": "deepseek-v2-lite", "attention_scale": 0.2})") == "");
  CHECK_THAT(why(R"({"preset": "deepseek-v2-lite", "attention_softcap": 20})", R"("attention": "flash", )"),
             Contains("attention_softcap or attention_sinks with attention_form latent"));
  CHECK(why(R"("apertus-8b")") == "");
  CHECK_THAT(why(R"({"preset": "mixtral-8x7b", "activation": "xielu"})"),
             Contains("activation xielu with 8 experts") && Contains("need activation silu"));
}

TEST_CASE("chunks of attention and its temperature are of causal attention with keys as they are") {
  CHECK(why(R"("llama-4-scout")") == "");
  CHECK(why(R"({"preset": "llama-bytes-tiny", "attention_chunk": 32})") == "");  // also with attention core
  CHECK(why(R"({"preset": "llama-bytes-tiny", "attention_chunk": 32, "window": 8})", R"("attention": "flash", )") ==
        "");
  CHECK_THAT(why(R"({"preset": "deepseek-v2-lite", "attention_chunk": 32})"),
             Contains("attention_chunk with attention_form latent") && Contains("need attention_chunk 0"));
  CHECK_THAT(why(R"({"preset": "deepseek-v2-lite", "attention_temperature": {"scale": 0.1}})"),
             Contains("attention_temperature with attention_form latent"));
  CHECK_THAT(why(R"({"preset": "llama-bytes-tiny", "causal": false, "attention_chunk": 32})"),
             Contains("attention_chunk of attention that is not causal"));
}
