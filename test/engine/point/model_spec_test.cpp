// Presets: their sizes against the public numbers of parameters.
#include "engine/point/model_spec.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/architecture.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("the vocabulary is padded to what the field says, or to what the framework does") {
  Point p;
  p.model = read_model(nlohmann::json::parse(R"({"family": "llama", "layers": 32, "hidden": 3072, "heads": 32, "ffn": 8192, "vocab": 32064,
                                       "positions": 4096})"), "test");
  const auto count = [&] { return parameter_count(p.model, p.tp, p.vocab_multiple_used()); };
  CHECK(count() == 3821472768);
  p.vocab_multiple = 1;  // as Hugging Face has Phi-3-mini
  CHECK(count() == 3821079552);
  p.vocab_multiple = 0, p.framework = {.preset = "torchtitan"};
  CHECK(count() == 3821079552);
  p.tp = 128;  // 250.5 rows for each rank
  CHECK(p.model.padded_vocab(p.tp, p.vocab_multiple_used()) == 251 * 128);
}

TEST_CASE("presets have the published number of parameters") {
  const auto count = [](const char* name) { return known_parameter_count(find_preset(name, "test"), 1); };
  CHECK(count("llama-2-7b") == 6738415616);
  CHECK(count("llama-2-13b") == 13015864320);
  CHECK(count("llama-2-70b") == 68976648192);
  CHECK(count("llama-3-8b") == 8030261248);
  CHECK(count("llama-3-70b") == 70553706496);
  CHECK(count("llama-3.1-405b") == 405853388800);
  CHECK(count("mixtral-8x7b") == 46702792704);
  CHECK(count("mixtral-8x22b") == 140620634112);
  // As their published weights have them; of DeepSeek-V3 without its layer for a second token and without the corrections of
  // its 58 routers, which no gradient moves (671,026,419,200 with those).
  CHECK(count("deepseek-v2-lite") == 15706484224);
  CHECK(count("deepseek-v2") == 235741434880);
  CHECK(count("deepseek-v3") == 671026419200 - 58 * 256);
  // Its report counts 15.29 billion without the tables of words.
  CHECK(static_cast<double>(count("moonlight-16b-a3b").value() - 2 * std::int64_t{163840} * 2048) ==
        Approx(15.29e9).epsilon(0.0005));
  CHECK(count("qwen3-30b-a3b") == 30532122624);
  CHECK(count("qwen3-235b-a22b") == 235093634560);
  CHECK(static_cast<double>(count("gpt-462b").value()) == Approx(462e9).epsilon(0.01));
  // As their reports have them: 12.5 + 3.1 and 331.6 + 9.4 billion, those of the tables of words second.
  CHECK(static_cast<double>(count("nemotron-4-15b").value()) == Approx(15.6e9).epsilon(0.003));
  CHECK(static_cast<double>(count("nemotron-4-340b").value()) == Approx(341.0e9).epsilon(0.001));
  // BertForPreTraining, whose vocabulary is not padded.
  std::int64_t bert = 0;
  const ModelSpec uncased = find_preset("bert-base-uncased", "test");
  for (const WeightSpec& w : weights_of(uncased, uncased.vocab))
    if (!w.tied) bert += w.shape.numel();
  CHECK(bert == 110106428);
  ModelSpec no_ranks = find_preset("llama-2-7b", "test");
  no_ranks.family = "deepseek";
  CHECK_FALSE(known_parameter_count(no_ranks, 1));
  CHECK_THROWS_AS(parameter_count(no_ranks, 1), Error);
  // Four heads of keys and values in place of 16: 2 x 12 x 64 rows less in each layer's QKV, weights and biases.
  ModelSpec grouped = find_preset("gpt2-345m", "test");
  const std::int64_t full = parameter_count(grouped, 1);
  grouped.kv_heads = 4;
  CHECK(parameter_count(grouped, 1) == full - 24 * (2 * 12 * 64) * (1024 + 1));
}

TEST_CASE("attention of published models has their number of weights") {
  // Of one layer: what attention's weights hold, its norms included.
  const auto attention = [](const char* name) {
    const ModelSpec m = find_preset(name, "test");
    std::int64_t n = 0;
    for (const WeightSpec& w : weights_of(layer_of(m, 0)))
      for (const char* own : {"down", "q_norm", "kv_norm", "q", "kv", "proj"})
        if (w.name == fmt::format("layers.0.{}.weight", own) ||
            w.name == fmt::format("layers.0.{}.gamma", own))
          n += w.shape.numel();
    return n;
  };
  // q_a, its norm, q_b, kv_a, its norm, kv_b, o.
  CHECK(attention("deepseek-v3") ==
        7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168);
  CHECK(attention("deepseek-v2") ==
        5120 * 1536 + 1536 + 1536 * 128 * 192 + 5120 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 5120);
  for (const char* name : {"deepseek-v2-lite", "moonlight-16b-a3b"})
    CHECK(attention(name) == 2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048);
  // Qwen3 0.6B without its table of 151936 words, 28 layers of 1024 with 16 and 8 heads of 128, as its published weights have
  // them.
  const ModelSpec qwen3 =
      read_model(nlohmann::json::parse(R"({"family": "llama", "layers": 28, "hidden": 1024, "heads": 16,
      "kv_heads": 8, "head_dim": 128, "ffn": 3072, "vocab": 151936, "positions": 40960, "tied_embedding": true,
      "qk_norm": true, "norm_eps": 1e-6, "rope": {"base": 1000000}})"),
                 "m: $");
  CHECK(parameter_count(qwen3, 1) == 596049920);
  CHECK(read_model(nlohmann::json::parse(write_model(qwen3).dump()), "m: $") == qwen3);
  CHECK(model_identity(qwen3).at("qk_norm") == true);
  const ModelSpec v2 =
      read_model(nlohmann::json::parse(R"({"preset": "deepseek-v2", "v_head_dim": 64})"), "m: $");
  CHECK(read_model(nlohmann::json::parse(write_model(v2).dump()), "m: $") == v2);
  CHECK(model_identity(v2).at("q_lora_rank") == 1536);
}

TEST_CASE("depths of multi-token prediction: DeepSeek-V3 has 11.5 B weights more") {
  const ModelSpec v3 = find_preset("deepseek-v3", "test");
  const ModelSpec ahead =
      read_model(nlohmann::json::parse(R"({"preset": "deepseek-v3", "mtp_layers": 1})"), "m: $");
  // "11.5B unique parameters" (README_WEIGHTS of the published model): a layer with 256 experts and a shared one, the
  // projection of 2 x 7168, norms; table and logits are the model's.
  const std::int64_t more = parameter_count(ahead, 1) - parameter_count(v3, 1);
  const std::int64_t layer = [&] {
    std::int64_t n = 0;
    for (const WeightSpec& w : weights_of(layer_of(v3, 60))) n += w.shape.numel();
    return n;
  }();
  CHECK(more == layer + 2 * 7168 * 7168 + 3 * 7168);
  CHECK(static_cast<double>(more) * 1e-9 == Approx(11.5).epsilon(0.01));
  CHECK(read_model(nlohmann::json::parse(write_model(ahead).dump()), "m: $") == ahead);
  CHECK(model_identity(ahead).at("mtp_layers") == 1);
}

TEST_CASE("sizes of heads that do not fit one another are refused with their place and the nearest that do") {
  const auto why = [](const char* text) -> std::string {
    try {
      read_model(nlohmann::json::parse(text), "p.json: $.model");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      return e.what();
    }
    return "";
  };
  const std::string at = "[p.json: $.model.";
  CHECK(why(R"({"preset": "gpt-bytes-tiny"})").empty());
  CHECK(why(R"({"preset": "gpt-bytes-tiny", "heads": 3})") ==
        at + "heads] does not divide hidden 64, got 3, need 2 or 4, or head_dim too");
  CHECK(why(R"({"preset": "gpt-bytes-tiny", "kv_heads": 3})") ==
        at + "kv_heads] does not divide heads 4, got 3, need 2 or 4");
  CHECK(why(R"({"preset": "llama-bytes-tiny", "head_dim": 15})") ==
        at + "head_dim] rotary positions turn pairs of columns, got 15, need an even number, 14 or 16");
  CHECK(why(R"({"preset": "gpt-bytes-tiny", "v_head_dim": 8})") ==
        at + "v_head_dim] with attention_form multi_head, got 8, need 0, or attention_form latent");
  CHECK(why(R"({"preset": "gpt-bytes-tiny", "family": "deepseek"})") ==
        at + "kv_lora_rank] of attention_form latent, got 0, need at least 1");
  CHECK(why(R"({"preset": "deepseek-v3", "qk_rope_head_dim": 5})") ==
        at + "qk_rope_head_dim] rotary positions turn pairs of columns, got 5, need an even number, 4 or 6");
  CHECK(why(R"({"preset": "deepseek-v3", "kv_heads": 2})") ==
        at + "kv_heads] with attention_form latent, got 2, need 128, as many as heads");
  CHECK(why(R"({"preset": "deepseek-v3", "head_dim": 16})") ==
        at + "head_dim] with attention_form latent, got 16, need qk_nope_head_dim, qk_rope_head_dim and "
             "v_head_dim alone");
}

TEST_CASE("large GPT presets are as large as their names say") {
  const auto billions = [](const char* name) {
    return static_cast<double>(parameter_count(find_preset(name, "test"), 1)) * 1e-9;
  };
  CHECK(billions("gpt-6.7b") == Approx(6.7).epsilon(0.015));
  CHECK(billions("gpt-22b") == Approx(22).epsilon(0.01));
  CHECK(billions("gpt3-175b") == Approx(175).epsilon(0.01));
  CHECK(billions("gpt-530b") == Approx(530).epsilon(0.01));
  CHECK(billions("gpt-1t") == Approx(1000).epsilon(0.01));
}

TEST_CASE("every family names all of its parts, and a spec may name others") {
  CHECK(family_names() == std::vector<std::string>{"bert", "deepseek", "gpt", "llama", "mixtral"});
  const auto read = [](const char* text) { return read_model(nlohmann::json::parse(text), "m: $"); };
  const ModelSpec plain = read(R"({"preset": "gpt-bytes-tiny"})");
  CHECK(plain.parts() == parts_of_family("gpt"));
  CHECK(plain == find_preset("gpt-bytes-tiny", "test"));
  const ModelSpec same = read(R"({"preset": "gpt-bytes-tiny", "norm": "layer_norm", "causal": true})");
  CHECK(same == plain);  // said, but as the family has it
  const ModelSpec other = read(R"({"preset": "gpt-bytes-tiny", "norm": "rms_norm", "causal": false})");
  CHECK(other.parts().norm == NormKind::rms_norm);
  CHECK_FALSE(other.parts().causal);
  CHECK(read(write_model(other).dump().c_str()) == other);
  CHECK(model_identity(other) != model_identity(plain));
  CHECK_FALSE(model_identity(plain).contains("norm"));  // ids of models without parts of their own stay
  CHECK_THROWS_AS(read(R"({"preset": "gpt-bytes-tiny", "norm": "layernorm"})"), Error);
  CHECK_THROWS_AS(read(R"({"preset": "gpt-bytes-tiny", "family": "gtp"})"), Error);
}

TEST_CASE("the list of weights: GPT's and BERT's, in the order in which a rank has them") {
  const auto names = [](const std::string& preset) {
    ModelSpec m = find_preset(preset, "test");
    m.layers = 1;
    std::vector<std::string> all;
    for (const WeightSpec& w : weights_of(m, m.padded_vocab(1)))
      all.push_back(w.name + (w.tied ? " (tied)" : ""));
    return all;
  };
  const std::vector<std::string> layer = {
      "layers.0.norm1.gamma", "layers.0.norm1.beta", "layers.0.qkv.weight",  "layers.0.qkv.bias",
      "layers.0.proj.weight", "layers.0.proj.bias",  "layers.0.norm2.gamma", "layers.0.norm2.beta",
      "layers.0.fc1.weight",  "layers.0.fc1.bias",   "layers.0.fc2.weight",  "layers.0.fc2.bias"};
  std::vector<std::string> gpt = {"embedding.word", "embedding.position"};
  gpt.insert(gpt.end(), layer.begin(), layer.end());
  for (const char* name : {"final_norm.gamma", "final_norm.beta", "lm_head.weight (tied)"})
    gpt.push_back(name);
  CHECK(names("gpt-bytes-tiny") == gpt);
  const std::vector<std::string> bert = names("bert-bytes-tiny");
  CHECK(bert.size() == 3 + 12 + 12);
  CHECK(bert[2] == "embedding.token_type");
  CHECK(bert.back() == "lm_head.bias");
}

TEST_CASE("rotary frequencies, and LLaMA 3.1's slower ones") {
  RopeSpec rope;
  CHECK(rope.turned(64) == 64);
  rope.fraction = 0.5;
  CHECK(rope.turned(64) == 32);
  CHECK(rope.turned(10) == 4);
  rope.fraction = 1;
  const std::vector<float> plain = rope.frequencies(8);
  REQUIRE(plain.size() == 4);
  CHECK(plain[0] == 1);
  CHECK(plain[1] == Approx(0.1));
  CHECK(plain[3] == Approx(0.001));
  // As Hugging Face's transformers computes them for Llama 3.1 (rope_theta 500000, factor 8, 1, 4, 8192, heads of 128).
  const RopeSpec& long_context = find_preset("llama-3.1-405b", "test").parts().rope;
  const std::vector<float> slowed = long_context.frequencies(128);
  REQUIRE(slowed.size() == 64);
  RopeSpec quick = long_context;
  quick.factor = 1;
  const std::vector<float> unscaled = quick.frequencies(128);
  CHECK(slowed[0] == 1);
  CHECK(slowed[28] == Approx(unscaled[28]));      // wavelength 1,956, below 8192 / 4
  CHECK(slowed[40] == Approx(unscaled[40] / 8));  // 22,908, above 8192
  CHECK(slowed[63] == Approx(unscaled[63] / 8));
  CHECK(slowed[31] < unscaled[31]);  // 3,620, between them
  CHECK(slowed[31] > unscaled[31] / 8);
  const auto read = [](const std::string& rope_text) {
    return read_model(nlohmann::json::parse(R"({"preset": "llama-2-7b", "rope": )" + rope_text + "}"),
                      "m: $");
  };
  CHECK(read(R"({"base": 10000})") == find_preset("llama-2-7b", "test"));
  const ModelSpec other = read(R"({"base": 1000, "scaling": {"factor": 4}})");
  CHECK(other.parts().rope.factor == 4);
  CHECK(read_model(nlohmann::json::parse(write_model(other).dump()), "m: $") == other);
  CHECK_THROWS_WITH(read(R"({"base": 10000, "fractoin": 0.5})"),
                    Catch::Contains("m: $.rope") && Catch::Contains("fraction"));
  CHECK_THROWS_WITH(
      read(R"({"scaling": {"factor": 4, "low_frequency_factor": 4}})"),
      Catch::Contains("high_frequency_factor") && Catch::Contains("need more than the low one"));
}
