// Presets: their sizes against the public numbers of parameters.
#include "engine/point/model_spec.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/adapter_weights.h"
#include "engine/point/architecture.h"
#include "engine/point/model_changes.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("the vocabulary is padded to what the field says, or to what the framework does") {
  Point p;
  p.model =
      read_model(nlohmann::json::parse(
                     R"({"family": "llama", "layers": 32, "hidden": 3072, "heads": 32, "ffn": 8192, "vocab": 32064,
                                       "positions": 4096})"),
                 "test");
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
  // Hybrids: as their published weights have them, without the corrections of routers.
  CHECK(known_parameter_count(find_preset("mamba2-130m", "test"), 1, 1) == 128989632);
  CHECK(known_parameter_count(find_preset("mamba-130m", "test"), 1, 1) == 129135360);
  CHECK(known_parameter_count(find_preset("mamba-2.8b", "test"), 1, 1) == 2768345600);
  CHECK(known_parameter_count(find_preset("falcon-mamba-7b", "test"), 1, 1) == 7272665088);
  CHECK(known_parameter_count(find_preset("lfm2-350m", "test"), 1, 1) == 354483968);
  CHECK(known_parameter_count(find_preset("lfm2-1.2b", "test"), 1, 1) == 1170340608);
  CHECK(known_parameter_count(find_preset("lfm2-8b-a1b", "test"), 1, 1) == 8339929856);
  CHECK(known_parameter_count(find_preset("jamba-mini", "test"), 1, 1) == 51570323328);
  CHECK(known_parameter_count(find_preset("mamba2-2.7b", "test"), 1, 1) == 2702599680);
  CHECK(count("nemotron-h-8b") == 8100852736);
  CHECK(count("nemotron-nano-9b-v2") == 8888227328);
  CHECK(count("nemotron-nano-12b-v2") == 12310001152);
  CHECK(count("nemotron-3-nano-30b-a3b") == 31577937344);
  CHECK(count("nemotron-3-super-120b-a12b") == 123611012096);
  CHECK(count("qwen3-next-80b-a3b") == 79674391296);
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
        if (w.name == fmt::format("layers.0.{}.weight", own) || w.name == fmt::format("layers.0.{}.gamma", own))
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
  const ModelSpec v2 = read_model(nlohmann::json::parse(R"({"preset": "deepseek-v2", "v_head_dim": 64})"), "m: $");
  CHECK(read_model(nlohmann::json::parse(write_model(v2).dump()), "m: $") == v2);
  CHECK(model_identity(v2).at("q_lora_rank") == 1536);
}

TEST_CASE("labels of samples: a linear layer in place of logits, behind a pooler where the objective has one") {
  const auto read = [](const char* text) { return read_model(nlohmann::json::parse(text), "m: $"); };
  // BertForSequenceClassification of bert-base-uncased, as transformers counts it.
  const ModelSpec bert = read(R"({"preset": "bert-base-uncased", "labels": 2})");
  CHECK(parameter_count(bert, 1, 1) == 109483778);
  CHECK(bert.labels == 2);
  CHECK_FALSE(bert.masks_words());
  CHECK_FALSE(bert.labels_from_last());
  CHECK(read_model(nlohmann::json::parse(write_model(bert).dump()), "m: $") == bert);
  CHECK(model_identity(bert).at("labels") == 2);
  CHECK(label_of(bert) == "bert-base-uncased (labels 2)");
  // GPT-2's table makes no logits then, and is no longer shared by both ends.
  const ModelSpec gpt = read(R"({"preset": "gpt2-124m", "labels": 5})");
  CHECK(parameter_count(gpt, 1) == parameter_count(find_preset("gpt2-124m", "test"), 1) + 5 * 768);
  CHECK(gpt.parts().tied_embedding);
  CHECK_FALSE(gpt.ties_embedding());
  CHECK(gpt.labels_from_last());
  // Of an adapted model the classifier is trained too.
  AdapterSpec lora;
  lora.rank = 4, lora.alpha = 4, lora.targets = {"proj"};
  CHECK(adapter_parameter_count(gpt, lora) == 12 * 2 * 4 * 768 + 5 * 768);
  CHECK(thawed_parameter_count(gpt) == 5 * 768);
  CHECK_THROWS_WITH(
      read(R"({"preset": "gpt2-124m", "labels": 1})"),
      Catch::Contains("m: $.labels") && Catch::Contains("one class of samples, got 1, need 2 or more, or 0"));
}

TEST_CASE("depths of multi-token prediction: DeepSeek-V3 has 11.5 B weights more") {
  const ModelSpec v3 = find_preset("deepseek-v3", "test");
  const ModelSpec ahead = read_model(nlohmann::json::parse(R"({"preset": "deepseek-v3", "mtp_layers": 1})"), "m: $");
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
  // Depths that are one layer have its weights once.
  const ModelSpec again = read_model(
      nlohmann::json::parse(R"({"preset": "deepseek-v3", "mtp_layers": 3, "mtp_use_repeated_layer": true})"), "m: $");
  CHECK(parameter_count(again, 1) == parameter_count(ahead, 1));
  CHECK(read_model(nlohmann::json::parse(write_model(again).dump()), "m: $") == again);
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
  CHECK(
      why(R"({"preset": "deepseek-v3", "head_dim": 16})") ==
      at + "head_dim] with attention_form latent, got 16, need only qk_nope_head_dim, qk_rope_head_dim and v_head_dim");
}

TEST_CASE("presets of published decoders have their published number of parameters") {
  // Of the published weights, tied tables counted once and no words added. The last eight are as transformers counts its classes.
  const std::pair<const char*, std::int64_t> published[] = {
      {"gpt2-124m", 124439808},           {"qwen2.5-0.5b", 494032768},        {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-3b", 3085938688},         {"qwen2.5-7b", 7615616512},         {"qwen2.5-14b", 14770033664},
      {"qwen2.5-32b", 32763876352},       {"qwen2.5-72b", 72706203648},       {"qwen3-0.6b", 596049920},
      {"qwen3-1.7b", 1720574976},         {"qwen3-4b", 4022468096},           {"qwen3-8b", 8190735360},
      {"qwen3-14b", 14768307200},         {"qwen3-32b", 32762123264},         {"qwen1.5-moe-a2.7b", 14315784192},
      {"gpt-oss-20b", 20914757184},       {"gpt-oss-120b", 116829156672},     {"dbrx", 131596523520},
      {"llama-4-scout", 107769861120},    {"llama-4-maverick", 400711848960}, {"gemma-2b", 2506172416},
      {"gemma-7b", 8537680896},           {"gemma-2-2b", 2614341888},         {"gemma-2-9b", 9241705984},
      {"gemma-2-27b", 27227128320},       {"gemma-3-1b", 999885952},          {"mistral-7b", 7241732096},
      {"mistral-small-24b", 23572403200}, {"phi-3-mini", 3821079552},         {"phi-4", 14659507200},
      {"phi-4-mini", 3836021760},         {"smollm3-3b", 3075098624},         {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824},       {"olmo-2-1b", 1484916736},          {"olmo-2-7b", 7298617344},
      {"olmo-2-13b", 13716198400},        {"olmo-2-32b", 32234279936},        {"falcon-7b", 6921720704},
      {"falcon-40b", 41303293952},        {"command-r", 34980831232},         {"mpt-7b", 6649286656},
      {"bloom-7b1", 7069016064},          {"gpt-j-6b", 6050882784},           {"pythia-6.9b", 6857302016},
      {"starcoder2-3b", 3030371328},      {"starcoder2-15b", 15957889024},    {"smollm2-135m", 134515008},
      {"smollm2-360m", 361821120},        {"smollm2-1.7b", 1711376384},       {"yi-34b", 34388917248},
      {"internlm2-7b", 7737708544},       {"glm-4-9b", 9399951360},           {"glm-4-9b-0414", 9400279040},
      {"gemma-3-4b", 3880263168},         {"gemma-3-12b", 11766034176},       {"gemma-3-27b", 27009346304},
      {"glm-4.5-air", 106852245504},      {"glm-4.5", 352797814784},          {"kimi-k2", 1026408209408},
      {"apertus-8b", 8053338176},         {"apertus-70b", 70599864480}};
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(parameter_count(find_preset(name, "test"), 1, 1) == count);
  }
}

TEST_CASE("parts by layer: rules, the last one counting, in and out of JSON") {
  const auto read = [](const char* text) { return read_model(nlohmann::json::parse(text), "m: $"); };
  const ModelSpec m = read(R"({"preset": "llama-2-7b", "window": 4096, "layers_of": [
      {"every": 6, "from": 5, "window": 0, "rope": {"base": 1000000}}, {"from": 30, "until": 31, "position": "none"}]})");
  CHECK(m.at_layer(0).parts().window == 4096);
  CHECK(m.at_layer(5).parts().window == 0);
  CHECK(m.at_layer(11).parts().rope.base == 1000000);
  CHECK(m.at_layer(12).parts().rope.base == 10000);
  CHECK(m.at_layer(30).parts().position == PositionKind::none);
  CHECK(m.at_layer(31).parts().position == PositionKind::rotary);
  CHECK(kinds_of_layers(m) == std::vector<std::int64_t>{0, 5, 30});
  CHECK(read(write_model(m).dump().c_str()) == m);
  CHECK(model_identity(m).at("layers_of").size() == 2);
  CHECK_FALSE(model_identity(find_preset("llama-2-7b", "test")).contains("layers_of"));
  // Experts in every second layer.
  const ModelSpec& maverick = find_preset("llama-4-maverick", "test");
  CHECK_FALSE(maverick.has_experts(0));
  CHECK(maverick.has_experts(1));
  CHECK(maverick.has_experts(47));
  // Chunks of positions, and a temperature where there are no positions.
  const ModelSpec& scout = find_preset("llama-4-scout", "test");
  CHECK(scout.at_layer(3).parts().attention_temperature == AttentionTemperature{0.1, 8192, 1});
  CHECK(scout.at_layer(2).parts().attention_temperature == AttentionTemperature());
  CHECK(scout.at_layer(2).parts().qk_norm == QkNorm::without_weights);
  CHECK(scout.attention_chunks() == std::vector<std::int64_t>{0, 8192});
  CHECK(m.attention_chunks() == std::vector<std::int64_t>{0});
  CHECK(read(R"({"preset": "llama-2-7b", "attention_chunk": 64, "layers_of": [{"every": 2, "attention_chunk": 32}]})")
            .attention_chunks() == std::vector<std::int64_t>{32, 64});
  const AttentionTemperature temperature{0.1, 4, 1};
  CHECK(temperature.at(2) == 1);
  CHECK(temperature.at(3) == Approx(1 + 0.1 * std::log(2)));
  CHECK(temperature.at(10) == Approx(1 + 0.1 * std::log(3)));
  CHECK(AttentionTemperature{0.1, 4, 0}.at(3) == 1);
  for (const char* value : {R"("without_weights")", R"("layer_norm")", R"("layer_norm_by_head")", R"("all_heads")"}) {
    const std::string text = fmt::format(R"({{"preset": "llama-2-7b", "qk_norm": {}}})", value);
    CHECK(model_identity(read(text.c_str())).at("qk_norm").dump() == value);
  }
  CHECK(read(R"({"preset": "llama-2-7b", "attention_temperature": {"scale": 0, "floor": 7}})") ==
        find_preset("llama-2-7b", "test"));
  const auto why = [&](const char* text) -> std::string {
    try {
      read(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  using Catch::Contains;
  CHECK_THAT(why(R"({"preset": "llama-2-7b", "layers_of": [{"every": 2, "norm": "layer_norm"}]})"),
             Contains("layers_of[0].norm") && Contains("all layers have the same"));
  CHECK_THAT(why(R"({"preset": "llama-2-7b", "layers_of": [{"every": 2}]})"), Contains("changes no part"));
  CHECK_THAT(why(R"({"preset": "llama-2-7b", "layers_of": [{"experts": 0}]})"), Contains("without experts"));
  CHECK_THAT(why(R"({"preset": "llama-2-7b", "layers_of": {"every": 2}})"), Contains("need a list"));
}

TEST_CASE("biases of some layers") {
  const auto read = [](const char* text) { return read_model(nlohmann::json::parse(text), "m: $"); };
  const ModelSpec qkv = read(R"({"preset": "llama-2-7b", "bias": ["qkv"]})");
  CHECK(parameter_count(qkv, 1) - parameter_count(find_preset("llama-2-7b", "test"), 1) == 32 * 3 * 4096);
  CHECK(model_identity(qkv).at("bias") == nlohmann::json::parse(R"(["qkv"])"));
  CHECK(read(R"({"preset": "llama-2-7b", "bias": ["qkv", "proj", "dense", "experts"]})") ==
        read(R"({"preset": "llama-2-7b", "bias": true})"));
  CHECK(read(R"({"preset": "llama-2-7b", "bias": []})") == find_preset("llama-2-7b", "test"));
  CHECK_THROWS_WITH(read(R"({"preset": "llama-2-7b", "bias": ["qvk"]})"),
                    Catch::Contains("bias[0]") && Catch::Contains("qkv"));
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
  CHECK(family_names() ==
        std::vector<std::string>{"bert", "deepseek", "gpt", "llama", "mamba", "mamba2", "mixtral", "nemotron_h"});
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
    for (const WeightSpec& w : weights_of(m, m.padded_vocab(1))) all.push_back(w.name + (w.tied ? " (tied)" : ""));
    return all;
  };
  const std::vector<std::string> layer = {"layers.0.norm1.gamma", "layers.0.norm1.beta",  "layers.0.qkv.weight",
                                          "layers.0.qkv.bias",    "layers.0.proj.weight", "layers.0.proj.bias",
                                          "layers.0.norm2.gamma", "layers.0.norm2.beta",  "layers.0.fc1.weight",
                                          "layers.0.fc1.bias",    "layers.0.fc2.weight",  "layers.0.fc2.bias"};
  std::vector<std::string> gpt = {"embedding.word", "embedding.position"};
  gpt.insert(gpt.end(), layer.begin(), layer.end());
  for (const char* name : {"final_norm.gamma", "final_norm.beta", "lm_head.weight (tied)"}) gpt.push_back(name);
  CHECK(names("gpt-bytes-tiny") == gpt);
  const std::vector<std::string> bert = names("bert-bytes-tiny");
  CHECK(bert.size() == 3 + 12 + 12);
  CHECK(bert[2] == "embedding.token_type");
  CHECK(bert.back() == "lm_head.bias");
}

TEST_CASE("layers of one branch each, and of two with other mixers") {
  const auto model = [](const std::string& fields) {
    return read_model(
        nlohmann::json::parse(R"({"family": "nemotron_h", "hidden": 64, "heads": 4, "vocab": 100, "positions": 32,
        "state_heads": 4, "state_head_dim": 8, "state_groups": 2, "state_dim": 6, )" +
                              fields + "}"),
        "model");
  };
  const ModelSpec m = model(R"("layers": 4, "hybrid_pattern": "M*-M")");
  CHECK(layer_of(m, 0).branches.size() == 1);
  CHECK(std::holds_alternative<StateMixerSpec>(layer_of(m, 0).branches[0].mixer));
  CHECK(std::holds_alternative<AttentionSpec>(layer_of(m, 1).branches[0].mixer));
  CHECK(std::holds_alternative<MlpSpec>(layer_of(m, 2).branches[0].mixer));
  CHECK(kinds_of_layers(m) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(read_model(nlohmann::json(model_identity(m)), "model").hybrid_pattern == "M*-M");
  const ModelSpec two = model(R"("layers": 4, "layers_of": [{"every": 2, "mixer": "mamba2"}])");
  CHECK(layer_of(two, 0).branches.size() == 2);
  CHECK(std::holds_alternative<StateMixerSpec>(layer_of(two, 0).branches[0].mixer));
  CHECK(std::holds_alternative<AttentionSpec>(layer_of(two, 1).branches[0].mixer));
  // What a weight of a group has: z, x, B, C and steps.
  const auto s = std::get<StateMixerSpec>(layer_of(m, 0).branches[0].mixer);
  CHECK(s.in.out == 2 * (16 + 16 + 2 * 6 + 2));
  CHECK(s.conv.rows == 2 * (16 + 2 * 6));
  using Catch::Contains;
  CHECK_THROWS_WITH(model(R"("layers": 3, "hybrid_pattern": "M*-M")"),
                    Contains("got 4 letters, need one for each of 3"));
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "MX")"), Contains("letter 2, got \"X\""));
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "ME")"), Contains("need \"experts\" too"));
  CHECK_THROWS_WITH(model(R"("layers": 2)"), Contains("of layers without scans"));
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "M*", "state_groups": 3)"), Contains("state_groups"));
  // The first Mamba, whose heads are channels.
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "M*", "dt_rank": 3)"),
                    "[model.dt_rank] of layers without mixer mamba, got 3, need 0");
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "S*")"),
                    "[model.dt_rank] of layers with mixer mamba, got 0, need at least 1");
  CHECK_THROWS_WITH(model(R"("layers": 2, "hybrid_pattern": "S*", "dt_rank": 3)"),
                    Contains("whose heads are channels, got 8, need 1"));
  const auto mamba = [](const std::string& fields) {
    return read_model(nlohmann::json::parse(
                          R"({"family": "mamba", "layers": 2, "hidden": 64, "heads": 4, "vocab": 100, "positions": 32,
        "state_heads": 96, "state_head_dim": 1, "state_groups": 4, "state_dim": 6, "dt_rank": 5, "hybrid_pattern": "SS")" +
                          fields + "}"),
                      "model");
  };
  // Short convolutions and lightning attention have no sizes of their own.
  const auto lettered = [](const std::string& fields) {
    return read_model(
        nlohmann::json::parse(R"({"family": "llama", "layers": 3, "hidden": 96, "heads": 4, "ffn": 64, "vocab": 100,
        "positions": 32, )" + fields +
                              "}"),
        "model");
  };
  const auto conv = std::get<ShortConvSpec>(layer_of(lettered(R"("hybrid_pattern": "CL*")"), 0).branches[0].mixer);
  CHECK(conv.groups == 32);
  CHECK(conv.in.out == 3 * 96);
  CHECK(conv.conv.width == 4);
  const auto lightning = std::get<LightningSpec>(layer_of(lettered(R"("hybrid_pattern": "CL*")"), 1).branches[0].mixer);
  CHECK(lightning.in.out == 4 * 96);
  CHECK(lightning.log_slopes.size() == 4);
  CHECK(lightning.log_slopes[0] == Approx(std::log(0.5 * std::pow(2.0, -2))).epsilon(1e-4));
  CHECK_THROWS_WITH(lettered(R"("mixer": "short_conv", "state_heads": 4)"), Contains("of layers without scans, got 4"));
  // Attention and Mamba-2 side by side: one norm, and factors of each.
  const LayerSpec beside = layer_of(
      lettered(
          R"("mixer": "mamba2", "branches": "parallel_mixers", "state_heads": 6, "state_head_dim": 4, "state_groups": 3,
          "state_dim": 5, "state_norm": "none", "multipliers": {"state": 0.5, "gates": 0.25, "state_inputs": [1, 2, 3, 4, 5]})"),
      0);
  CHECK(beside.parallel == 2);
  REQUIRE(beside.branches.size() == 3);
  CHECK(beside.branches[0].norm.has_value());
  CHECK_FALSE(beside.branches[1].norm.has_value());
  CHECK(beside.branches[1].factor == 0.5f);
  CHECK(std::get<StateMixerSpec>(beside.branches[1].mixer).factors[4] == 5);
  CHECK(std::get<MlpSpec>(beside.branches[2].mixer).gate_factor == 0.25f);
  CHECK_THROWS_WITH(lettered(R"("multipliers": {"state_inputs": [1, 2]})"), Contains("need 5 numbers"));
  CHECK_THROWS_WITH(mamba(R"(, "state_chunk": 65)"), Contains("model.state_chunk") && Contains("need at most 64"));
  const auto selective = std::get<StateMixerSpec>(layer_of(mamba(""), 0).branches[0].mixer);
  CHECK(selective.in.out == 4 * (24 + 24));
  CHECK(selective.x->out == 5 + 2 * 6);
  CHECK(selective.a_log.width == 96 * 6);
  CHECK(selective.norms.empty());
  CHECK(known_parameter_count(mamba(R"(, "scan_norm": "rms_norm")"), 1, 1).value() -
            known_parameter_count(mamba(R"(, "scan_norm": "without_weights")"), 1, 1).value() ==
        2 * (5 + 6 + 6));
}
