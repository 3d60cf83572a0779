// Configurations of Hugging Face whose layers differ.
#include "engine/base/json_reader.h"
#include "engine/point/architecture.h"
#include "engine/point/point.h"
#include "formats/hugging_face/hugging_face.h"
#include "formats/table/flat.h"
#include "test/catch.h"
#include "test/formats/hugging_face_configs.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using namespace mbench::test;
using nlohmann::json;
using nlohmann::ordered_json;

TEST_CASE("Hugging Face: layers that differ are rules of layers") {
  const auto rules = [](const ordered_json& config) { return imported(config).spec.at("model").at("layers_of"); };
  CHECK(rules({{"model_type", "gpt_oss"}}) == json::parse(R"([{"every": 2, "from": 1, "window": 0}])"));
  CHECK(rules({{"model_type", "exaone4"}, {"sliding_window_pattern", "LLLG"}, {"max_position_embeddings", 8192}}) ==
        json::parse(R"([{"every": 4, "from": 3, "window": 0, "position": "none"}])"));
  // As long as the longest sequence, the window is none, but its full layers have no positions all the same.
  CHECK(rules({{"model_type", "exaone4"}}) == json::parse(R"([{"every": 4, "from": 3, "position": "none"}])"));
  CHECK(rules({{"model_type", "qwen3_moe"}, {"decoder_sparse_step", 2}}) ==
        json::parse(R"([{"every": 2, "experts": 0}])"));
  const ordered_json first = imported({{"model_type", "qwen3_moe"}, {"mlp_only_layers", {0, 1}}}).spec.at("model");
  CHECK(first.at("dense_layers") == 2);
  CHECK_FALSE(first.contains("layers_of"));
}

TEST_CASE("Hugging Face: the first Mamba's channels, and which layers of Jamba have attention and experts") {
  const ModelSpec mamba = point_of({{"model_type", "mamba"}, {"hidden_size", 1024}}).model;
  CHECK(mamba.state_heads == 2048);
  CHECK(mamba.state_groups == 64);
  CHECK(mamba.dt_rank == 64);
  CHECK(mamba.parts().tied_embedding);
  // Of Falcon Mamba 7B, whose expand says nothing.
  CHECK(point_of({{"model_type", "falcon_mamba"}, {"expand", 16}, {"intermediate_size", 8192}}).model.state_heads ==
        8192);
  const ordered_json preset = {{"model_type", "falcon_mamba"},
                               {"num_hidden_layers", 64},
                               {"hidden_size", 4096},
                               {"vocab_size", 65024},
                               {"expand", 16},
                               {"intermediate_size", 8192},
                               {"tie_word_embeddings", false}};
  Point falcon;
  falcon.model = find_preset("falcon-mamba-7b", "");
  CHECK(differences(flat_point(falcon).at("model"), flat_point(point_of(preset)).at("model"), "model") ==
        std::vector<std::string>{});
  Point mini;
  mini.model = find_preset("jamba-mini", "");
  const Point jamba = point_of({{"model_type", "jamba"}});
  CHECK(differences(flat_point(mini).at("model"), flat_point(jamba).at("model"), "model") ==
        std::vector<std::string>{});
  std::vector<std::int64_t> attention, experts;
  for (std::int64_t i = 0; i < jamba.model.layers; ++i) {
    if (jamba.model.mixer_at(i) == MixerKind::attention) attention.push_back(i);
    if (jamba.model.has_experts(i)) experts.push_back(i);
  }
  CHECK(attention == std::vector<std::int64_t>{4, 12, 20, 28});
  CHECK(experts.size() == 16);
  CHECK(experts[0] == 1);
  CHECK_THAT(refusal({{"model_type", "jamba"}, {"sliding_window", 4096}}), Contains("a window of attention"));
  CHECK_THAT(refusal({{"model_type", "mamba"}, {"use_conv_bias", false}}), Contains("a convolution without a bias"));
}

TEST_CASE("Hugging Face: hybrids are read as their presets, and go out and come back") {
  const ordered_json mamba = {{"model_type", "mamba2"},
                              {"hidden_size", 2560},
                              {"num_heads", 80},
                              {"n_groups", 1},
                              {"vocab_size", 50288},
                              {"num_hidden_layers", 64},
                              {"tie_word_embeddings", true}};
  const ordered_json nano = {{"model_type", "nemotron_h"},
                             {"hybrid_override_pattern", "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"},
                             {"hidden_size", 4480},
                             {"num_attention_heads", 40},
                             {"intermediate_size", 15680},
                             {"mamba_head_dim", 80},
                             {"max_position_embeddings", 131072}};
  const ordered_json next = {{"model_type", "qwen3_next"},
                             {"intermediate_size", 5120},
                             {"max_position_embeddings", 262144},
                             {"rope_theta", 10000000}};
  for (const auto& [config, preset] : {std::pair(mamba, "mamba2-2.7b"), std::pair(nano, "nemotron-nano-9b-v2"),
                                       std::pair(next, "qwen3-next-80b-a3b")}) {
    INFO(preset);
    const Point point = point_from_json(json(imported(config).spec), "spec");
    const ModelSpec& wanted = find_preset(preset, "test");
    CHECK(parameter_count(point.model, 1, 1) == parameter_count(wanted, 1, 1));
    CHECK(model_identity(point.model) == model_identity(wanted));
    const ordered_json again = write_hugging_face(point);
    CHECK(again.at("model_type") == config.at("model_type"));
    // The width of a block that no layer has is not said.
    const auto without_ffn = [](json model) {
      for (const char* key : {"ffn", "expert_ffn"}) model.erase(key);
      return model;
    };
    CHECK(without_ffn(model_identity(point_from_json(json(imported(again).spec), "spec").model)) ==
          without_ffn(model_identity(wanted)));
  }
}
