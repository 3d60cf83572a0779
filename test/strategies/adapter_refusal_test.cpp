// What adapters are refused with, and what would do.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;
using nlohmann::json;

namespace {

std::string why(const std::string& fields, const char* model = R"("gpt-bytes-tiny")") {
  const Point p = point_from_json(
      json::parse(fmt::format(R"({{"model": {}, "seq": 64, "global_batch": 8, {}}})", model, fields)), "p.json: $");
  const auto refusal = strategies::why_not(p);
  return refusal ? refusal->reason : "";
}

}  // namespace

TEST_CASE("an etp beyond tp is refused whichever rule asks first") {
  const char* experts = R"("mixtral-bytes-4m")";
  for (const char* more : {R"("capture": true)", R"("replicas": "ranks")", R"("optimizer": "muon")"})
    CHECK_THAT(why(std::string(R"("tp": 2, "etp": 4, "sequence_parallel": true, )") + more, experts),
               Contains("etp 4 does not divide tp 2"));
}

TEST_CASE("adapters on a base in 4 bits: what it goes with, and for what it does not, what would do") {
  const char* model =
      R"({"family": "llama", "layers": 2, "hidden": 128, "heads": 4, "ffn": 256, "vocab": 64, "positions": 64})";
  const auto with = [&](const std::string& base, const std::string& more) {
    return why(R"("adapter": "lora:4,base=)" + base + R"(", )" + more, model);
  };
  for (const std::string base : {"nf4", "nf4-double"})
    for (const char* more : {R"("tp": 2, "sequence_parallel": true, "pp": 2)", R"("dp": 2, "zero": 2)",
                             R"("dp": 2, "zero": 3)", R"("dp": 2, "zero": "fsdp")", R"("cp": 2, "attention": "flash")",
                             R"("precision": "bf16", "recompute": "full")"})
      CHECK(with(base, more) == "");
  CHECK_THAT(with("nf4", R"("tp": 4)"), Contains("64 weights of a row together, got rows of 32"));
  CHECK_THAT(with("nf4", R"("precision": "fp8")"), Contains("with precision fp8 is not built"));
  const char* experts = R"({"preset": "mixtral-bytes-4m", "expert_ffn": 128})";
  CHECK(why(R"("adapter": "lora:4,base=nf4-double", "dp": 2, "ep": 2)", experts) == "");
  CHECK_THAT(why(R"("adapter": "lora:4,base=nf4", "tp": 2, "etp": 2, "sequence_parallel": true)",
                 R"({"preset": "mixtral-bytes-4m", "hidden": 256, "heads": 4, "expert_ffn": 64})"),
             Contains("64 weights of a row together, got rows of 32"));
  const char* few =
      R"({"family": "llama", "layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "ffn": 256, "vocab": 64,
                        "positions": 64})";
  CHECK(why(R"("adapter": "lora:4,targets=fc1,base=nf4", "tp": 4)", few) == "");
  CHECK_THAT(why(R"("adapter": "lora:4,targets=fc1,base=nf4-double", "tp": 4)", few),
             Contains("with tp 4 and 2 key and value heads") && Contains("tp 2"));
}

TEST_CASE("adapters: what they go with, and for what they do not, what would do") {
  const std::string lora = R"("adapter": "lora:4")";
  for (const char* more : {R"("tp": 2, "sequence_parallel": true)", R"("pp": 2)", R"("dp": 2, "zero": 3)",
                           R"("dp": 2, "zero": "fsdp")", R"("recompute": "full")",
                           R"("precision": "bf16", "optimizer": "adamw8bit")", R"("cp": 2, "attention": "flash")"})
    CHECK(why(lora + ", " + more) == "");
  CHECK(why(lora + R"(, "precision": "fp8")") == "");
  const std::string in_fp8 = lora + R"(, "precision": {"preset": "fp8", "fp8_parameters": true})";
  CHECK(why(in_fp8) == "");
  CHECK(why(in_fp8 + R"(, "dp": 2, "zero": 3)") == "");
  CHECK_THAT(why(lora + R"(, "dp": 2, "zero": 1, "offload": "optimizer")"), Contains("with offload optimizer"));
  CHECK_THAT(why(lora + R"(, "dp": 2, "replicas": "single_process")"), Contains("with replicas single_process"));
  CHECK_THAT(why(lora + R"(, "optimizer": "muon")"), Contains("with optimizer muon"));
  CHECK_THAT(why(lora + R"(, "pp": 2, "defer_embedding_wgrad": true)"), Contains("the logits' weight is frozen"));
  CHECK_THAT(why(lora + R"(, "pp": 4, "pipeline_layout": "E|t|t|L")",
                 R"({"family": "gpt", "layers": 2, "hidden": 32, "heads": 4, "vocab": 64, "positions": 64})"),
             Contains("with stage 0 of 4 that has no layer, and so nothing to train"));
  const char* experts = R"("mixtral-bytes-4m")";
  CHECK(why(lora, experts) == "");
  CHECK(why(R"("adapter": "lora:4,targets=qkv+proj")", experts) == "");
  CHECK(why(R"("adapter": "lora:4", "precision": {"preset": "fp8", "fp8_parameters": true}, "dp": 2, "zero": 3)",
            experts) == "");
  const char* grouped =
      R"({"family": "llama", "layers": 2, "hidden": 32, "heads": 8, "kv_heads": 2, "ffn": 64, "vocab": 64, "positions": 64})";
  CHECK_THAT(why(lora + R"(, "tp": 4)", grouped),
             Contains("of qkv with tp 4 and 2 key and value heads") && Contains("tp 2"));
  CHECK(why(R"("adapter": "lora:4,targets=proj+fc2", "tp": 4)", grouped) == "");
}
