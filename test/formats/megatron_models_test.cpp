// Megatron's scripts of whole models: the published points, and hybrids by their patterns.
#include <fmt/ranges.h>

#include <filesystem>
#include <map>

#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/megatron/megatron.h"
#include "formats/table/flat.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::formats;
using Catch::Contains;

namespace {

const std::string kSizes =
    "--num-layers 4\n--hidden-size 64 --num-attention-heads 4\n--seq-length 128 --max-position-embeddings "
    "128\n--micro-batch-size 2 --vocab-size 1000\n";

Point point_of(const std::string& text) {
  return point_from_json(json(read_megatron(text, "a.sh", {}).spec), "spec");
}

}  // namespace

TEST_CASE("Megatron: every published point that flags can say goes out and comes back the same") {
  // Why the others cannot: what no flag says of them.
  const std::map<std::string, std::string> cannot = {
      {"automodel-lora-llama3-8b-h100-1", "adapters, which Megatron-Bridge has and Megatron-LM has not"},
      {"mlperf-v5.1-lora70b-h200-16", "adapters, which NeMo has"},
      {"mlperf-v5.1-lora70b-mi300x-8", "adapters, which NeMo has"},
      {"automodel-gptoss20b-h100-8", "PyTorch's FSDP2, which NeMo AutoModel has"},
      {"automodel-qwen3-30b-h100-8", "PyTorch's FSDP2, which NeMo AutoModel has"},
      {"bridge-26.02-gpt-oss-120b-b200-64", "YaRN, which Megatron-Bridge has"},
      {"bridge-26.02-gpt-oss-120b-gb200-64", "YaRN, which Megatron-Bridge has"},
      {"bridge-26.02-gpt-oss-120b-h100-64", "YaRN, which Megatron-Bridge has"},
      {"card-gpt-oss-120b-gb200-64", "YaRN, which Megatron-Bridge has"},
      {"ci-gpt3-mcore-te-tp2-pp2-mla", "layer norms of latents"}};
  int said = 0, others = 0;
  const std::string folder = std::string(MBENCH_SOURCE_DIR) + "/configs/published/modern";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    INFO(name);
    ordered_json spec = parse_json(read_text_file(entry.path().string()), name);
    for (const char* key : {"$schema", "name", "published", "tables"}) spec.erase(key);
    const Point point = point_from_json(json(spec), name);
    if (point.framework.preset != "megatron-core") {
      ++others;
      CHECK_THROWS_AS(write_megatron(point), Error);
      continue;
    }
    if (cannot.count(name)) {
      CHECK_THROWS_AS(write_megatron(point), Error);
      continue;
    }
    std::string script;
    CHECK_NOTHROW(script = write_megatron(point));
    CHECK(script.find("--rotary-base 10000.") == std::string::npos);  // of type int
    if (script.empty()) continue;
    const Point again = point_of(script);
    CHECK(lost_fields(flat_point(point), flat_point(again)) == std::vector<std::string>{});
    ++said;
  }
  CHECK(said >= 55);
  CHECK(others >= 15);
}

TEST_CASE("Megatron: norms of queries and keys without weights go out and come back") {
  const Point point = point_of(kSizes +
                               " --num-layers 4 --position-embedding-type rope --normalization RMSNorm "
                               "--disable-bias-linear --swiglu --qk-l2-norm");
  CHECK(point.model.parts().qk_norm == QkNorm::without_weights);
  CHECK(point_of(write_megatron(point)).model == point.model);
  // Those with weights are of the kind that layers have.
  const Point layers = point_of(kSizes + " --position-embedding-type rope --qk-layernorm");
  CHECK(layers.model.parts().qk_norm == QkNorm::layer_norm);
  CHECK(point_of(write_megatron(layers)).model == layers.model);
  // Chunks and temperatures have no flag.
  Point llama4;
  llama4.model = find_preset("llama-4-scout", "test");
  llama4.framework.preset = "megatron-core";
  try {
    write_megatron(llama4);
    FAIL("chunks went out");
  } catch (const Error& e) {
    CHECK_THAT(e.what(), Contains("layers_of"));
  }
}

TEST_CASE("Megatron: it has no layer of the first Mamba") {
  Point mamba;
  mamba.model = find_preset("mamba-130m", "test");
  mamba.framework.preset = "megatron-core";
  CHECK_THROWS_WITH(write_megatron(mamba), Contains("hybrid_pattern"));
}

TEST_CASE("Megatron: patterns of hybrid layers and sizes of Mamba-2 go out and come back") {
  const std::string flags =
      " --num-layers 4 --position-embedding-type none --disable-bias-linear --hybrid-override-pattern M*-M "
      "--is-hybrid-model"
      " --mamba-num-heads 16 --mamba-num-groups 4 --mamba-state-dim 64"
      " --spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec";
  const nlohmann::ordered_json spec = read_megatron(kSizes + flags, "a.sh", {}).spec;
  const Point point = point_from_json(json(spec), "spec");
  CHECK(point.model.hybrid_pattern == "M*-M");
  CHECK(point.model.state_heads == 16);
  CHECK(point.model.state_head_dim == 64);
  CHECK(point.model.state_groups == 4);
  CHECK(point.model.state_dim == 64);
  CHECK(point.model.state_chunk == 128);
  const std::string script = write_megatron(point);
  CHECK_THAT(script, Catch::Contains("pretrain_mamba.py") && Catch::Contains("--hybrid-override-pattern"));
  CHECK(model_identity(point_from_json(json(read_megatron(script, "b.sh", {}).spec), "spec").model) ==
        model_identity(point.model));
  // Megatron counts the layers of this one itself.
  const std::string counted =
      kSizes.substr(kSizes.find('\n')) + " --hybrid-layer-pattern 'M*|-MG' --is-hybrid-model --mamba-num-groups 1";
  CHECK(read_megatron(counted, "a.sh", {}).spec.at("model").at("layers") == 5);
  CHECK_THROWS_WITH(read_megatron(kSizes + " --hybrid-override-pattern MX", "a.sh", {}),
                    Catch::Contains("layers of other kinds"));
}

TEST_CASE("Megatron: depths of multi-token prediction by letters, and of one layer, go out and come back") {
  const std::string flags = kSizes.substr(kSizes.find('\n')) + " --position-embedding-type none --disable-bias-linear" +
                            " --mamba-num-groups 1 --mtp-loss-scaling-factor 0.3";
  const auto read = [&](const std::string& more) {
    return point_from_json(json(read_megatron(flags + more, "a.sh", {}).spec), "spec");
  };
  for (const char* more : {" --hybrid-layer-pattern 'M*|M-/*-/*-' --mtp-use-repeated-layer",
                           " --hybrid-layer-pattern M*M-/*-/*- --mtp-use-repeated-layer --mtp-num-layers 2"}) {
    const Point point = read(more);
    CHECK(point.model.hybrid_pattern == "M*M-");
    CHECK(point.model.mtp_layers == 2);
    CHECK(point.model.parts().mtp_use_repeated_layer);
    CHECK(point.model.parts().mtp_loss_scaling_factor == 0.3);
    const std::string script = write_megatron(point);
    CHECK_THAT(script, Catch::Contains("--hybrid-layer-pattern") && Catch::Contains("M*M-/*-/*-"));
    CHECK_THAT(script, Catch::Contains("--mtp-use-repeated-layer"));
    CHECK(model_identity(point_from_json(json(read_megatron(script, "b.sh", {}).spec), "spec").model) ==
          model_identity(point.model));
  }
  CHECK_FALSE(read(" --hybrid-layer-pattern M*M-/*-").model.parts().mtp_use_repeated_layer);
  CHECK_THROWS_WITH(read(" --hybrid-layer-pattern M*M-/*M"), Catch::Contains("that is not *-"));
  CHECK_THROWS_WITH(read(" --hybrid-layer-pattern M*M-/MM*-"), Catch::Contains("that is not *-"));
}
