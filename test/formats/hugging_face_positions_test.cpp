// How configurations of Hugging Face models say where words stand: scalings of rotary angles, and what grows with positions.
#include <cmath>
#include <fstream>
#include <map>

#include "formats/table/flat.h"
#include "test/formats/hugging_face_configs.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using namespace mbench::test;

TEST_CASE("Hugging Face: a scaling of angles may have one bound") {
  const auto scaled = [](const ordered_json& scaling) {
    return point_of(with(kLlama, {{"rope_scaling", scaling}})).model.parts().rope.frequencies(16, 128);
  };
  const std::vector<float> plain = point_of(kLlama).model.parts().rope.frequencies(16, 128);
  // LLaMA's: what turns more often than the bound within the original length stays, the rest is 8 times slower.
  const std::vector<float> llama = scaled({{"rope_type", "llama3"},
                                           {"factor", 8},
                                           {"low_freq_factor", 1},
                                           {"high_freq_factor", 1},
                                           {"original_max_position_embeddings", 64}});
  for (std::size_t i = 0; i < plain.size(); ++i)
    CHECK(llama[i] == Approx(64 * plain[i] > 2 * 3.14159265 ? plain[i] : plain[i] / 8));
  const std::vector<float> yarn = scaled({{"rope_type", "yarn"},
                                          {"factor", 8},
                                          {"beta_fast", 1},
                                          {"beta_slow", 1},
                                          {"original_max_position_embeddings", 64}});
  CHECK(yarn.front() == Approx(plain.front()));
  CHECK(yarn.back() == Approx(plain.back() / 8));
}

TEST_CASE("Hugging Face: LLaMA 4's layers with positions attend in chunks, and those without have a temperature") {
  const auto model = [](const ordered_json& config, std::vector<std::string> without = {}) {
    return imported(with({{"model_type", "llama4_text"}, {"interleave_moe_layer_step", 2}}, config), without)
        .spec.at("model");
  };
  const ordered_json whole = model(ordered_json::object());
  CHECK(json(whole.at("layers_of")) == json::parse(R"([{"every": 4, "from": 3, "position": "none", "qk_norm": false,
      "attention_chunk": 0, "attention_temperature": {"scale": 0.1, "floor": 8192}}, {"every": 2, "experts": 0}])"));
  CHECK(whole.at("qk_norm") == "without_weights");
  CHECK(whole.at("attention_chunk") == 8192);
  CHECK(whole.at("positions") == 131072);
  CHECK(whole.at("routing").at("weighted") == "input");
  const ordered_json plain =
      model({{"use_qk_norm", false}, {"attention_chunk_size", nullptr}, {"attn_temperature_tuning", 0}});
  CHECK(json(plain.at("layers_of")) ==
        json::parse(R"([{"every": 4, "from": 3, "position": "none"}, {"every": 2, "experts": 0}])"));
  CHECK(plain.value("qk_norm", ordered_json(false)) == false);
  CHECK_FALSE(plain.contains("attention_chunk"));
  CHECK(model(ordered_json::object(), {"use_qk_norm", "attention_chunk_size", "attn_temperature_tuning"})
            .at("layers_of") == plain.at("layers_of"));
  const ordered_json scout = {{"model_type", "llama4_text"},
                              {"max_position_embeddings", 10485760},
                              {"attn_temperature_tuning", 4},
                              {"rope_scaling",
                               {{"rope_type", "llama3"},
                                {"factor", 16.0},
                                {"low_freq_factor", 1.0},
                                {"high_freq_factor", 1.0},
                                {"original_max_position_embeddings", 8192}}}};
  CHECK(differences(
            flat_point(point_of(scout)).at("model"),
            [] {
              Point point;
              point.model = find_preset("llama-4-scout", "");
              return flat_point(point).at("model");
            }(),
            "model") == std::vector<std::string>{});
  // Layers that attend in chunks, whichever have positions.
  const ordered_json listed = model({{"num_hidden_layers", 2},
                                     {"use_qk_norm", false},
                                     {"attn_temperature_tuning", false},
                                     {"layer_types", {"full_attention", "chunked_attention"}}});
  CHECK(json(listed.at("layers_of")) == json::parse(R"([{"every": 2, "attention_chunk": 0}])"));
}

TEST_CASE("Hugging Face: Ministral 3 turns by YaRN's angles, and its queries grow with their position") {
  const auto model = [](const ordered_json& config) {
    return imported(with({{"model_type", "ministral3"}}, config)).spec.at("model");
  };
  const ordered_json whole = model(ordered_json::object());
  CHECK(json(whole.at("attention_temperature")) == json::parse(R"({"scale": 0.1, "floor": 16384, "first": 0})"));
  CHECK(json(whole.at("rope").at("scaling")) ==
        json::parse(R"({"type": "yarn", "factor": 16, "original_positions": 16384, "low_frequency_factor": 1,
                        "high_frequency_factor": 32, "attention_factor": 1})"));
  const ordered_json plain = model({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}});
  CHECK_FALSE(plain.contains("attention_temperature"));
  CHECK_FALSE(plain.at("rope").contains("scaling"));
  CHECK(plain.at("rope").at("base") == 5e5);
  const ordered_json given = model({{"rope_parameters",
                                     {{"rope_type", "yarn"},
                                      {"factor", 16.0},
                                      {"original_max_position_embeddings", 4096},
                                      {"mscale", 1.0},
                                      {"mscale_all_dim", 0.5},
                                      {"llama_4_scaling_beta", 0.2}}}});
  CHECK(given.at("attention_temperature").at("scale") == 0.2);
  CHECK(given.at("attention_temperature").at("floor") == 4096);
  // What transformers' _compute_yarn_parameters gives.
  CHECK(given.at("rope").at("scaling").at("attention_factor").get<double>() == Approx(1.121751143713058));
}

TEST_CASE("Hugging Face: DeepSeek's and Kimi's YaRN scales scores") {
  const auto scale = [](double all_dim) {
    const ordered_json config = {{"model_type", "deepseek_v3"},
                                 {"rope_scaling",
                                  {{"type", "yarn"},
                                   {"factor", 40},
                                   {"beta_fast", 32},
                                   {"beta_slow", 1},
                                   {"mscale", all_dim},
                                   {"mscale_all_dim", all_dim},
                                   {"original_max_position_embeddings", 4096}}}};
    const Imported found = imported(config);
    CHECK_THAT(fmt::format("{}", fmt::join(found.notes, "\n")), !Contains("mscale"));
    const Point point = point_of(config);
    CHECK(point.model.parts().rope.magnitude() == 1);
    CHECK(write_hugging_face(point).at("rope_scaling").at("mscale_all_dim") == all_dim);
    return point.model.parts().attention_scale;
  };
  // What the self_attn.scaling of transformers' DeepseekV3ForCausalLM is.
  CHECK(scale(1.0) == Approx(0.1352337788608801).epsilon(1e-14));
  CHECK(scale(0.707) == Approx(0.1147213867929261).epsilon(1e-14));
  // A scale of scores that no factor of YaRN's gives.
  Point point;
  point.model = find_preset("deepseek-v3", "");
  point.dropout = 0;
  ModelParts parts = point.model.parts();
  parts.attention_scale = 0.2;
  point.model.own_parts = parts;
  CHECK_THROWS_WITH(write_hugging_face(point), Contains("attention_scale"));
}

TEST_CASE("Hugging Face: Phi's angles have a factor for each pair") {
  const ordered_json scaling = {{"type", "su"},
                                {"short_factor", {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7}},
                                {"long_factor", {1, 2, 3, 4, 5, 6, 7, 8}}};
  const ordered_json phi = {{"model_type", "phi3"},     {"num_hidden_layers", 3},           {"hidden_size", 64},
                            {"num_attention_heads", 4}, {"intermediate_size", 112},         {"vocab_size", 320},
                            {"rope_scaling", scaling},  {"max_position_embeddings", 131072}};
  const auto rope = [](const ordered_json& config) { return point_of(config).model.parts().rope; };
  CHECK(rope(phi).scaling == RopeScaling::longrope);
  CHECK(rope(phi).original_positions == 4096);
  CHECK(rope(phi).factor == 32);
  CHECK(rope(phi).long_factors[7] == 8);
  CHECK(rope(with(phi, {{"original_max_position_embeddings", 8192}})).factor == 16);
  // Other classes have what stands in the scaling.
  ordered_json own = scaling;
  own.update(
      {{"type", "longrope"}, {"original_max_position_embeddings", 64}, {"factor", 3}, {"attention_factor", 1.25}});
  const ordered_json llama = with(kLlama, {{"rope_scaling", own}});
  CHECK(rope(llama).original_positions == 64);
  CHECK(rope(llama).factor == 3);
  CHECK(rope(llama).magnitude() == 1.25);
  CHECK(write_hugging_face(point_of(llama)).at("model_type") == "llama");
  // Of a part of a head only Phi's class turns so.
  ordered_json part = phi;
  part["partial_rotary_factor"] = 0.5;
  for (const char* list : {"short_factor", "long_factor"}) part["rope_scaling"][list] = {1, 2, 3, 4};
  CHECK(write_hugging_face(point_of(part)).at("model_type") == "phi3");
  CHECK(write_hugging_face(point_of(part)).at("original_max_position_embeddings") == 4096);
  ordered_json moe = scaling;
  moe.update({{"short_mscale", 1.2}, {"long_mscale", 1.3}});
  CHECK_THAT(refusal({{"model_type", "phimoe"}, {"rope_scaling", moe}}), Contains("another magnitude"));
}

TEST_CASE("Hugging Face: Apertus turns by LLaMA 3.1's angles unless it says others") {
  const auto rope = [](const ordered_json& more) {
    return point_of(with({{"model_type", "apertus"}}, more)).model.parts().rope;
  };
  CHECK(rope(ordered_json::object()).factor == 8);
  CHECK(rope(ordered_json::object()).base == 12000000);
  CHECK(rope({{"rope_scaling", {{"rope_type", "default"}}}}).factor == 1);
  const ModelParts& parts = point_of({{"model_type", "apertus"}}).model.parts();
  CHECK(parts.activation == Activation::xielu);
  CHECK(parts.qk_norm == QkNorm::each_head);
}
