#include "formats/hugging_face/hugging_face.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/point/architecture.h"
#include "engine/point/point.h"
#include "formats/formats.h"
#include "formats/hugging_face/python_json.h"
#include "formats/table/flat.h"
#include "test/catch.h"
#include "test/formats/hugging_face_configs.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using namespace mbench::test;
using nlohmann::json;
using nlohmann::ordered_json;

TEST_CASE("Hugging Face: as many parameters as transformers' own class has") {
  const std::string file = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/configs.json";
  const ordered_json fixture = parse_json(read_text_file(file), file);
  REQUIRE(fixture.at("cases").size() > 15);
  for (const ordered_json& each : fixture.at("cases")) {
    INFO(each.at("config").dump());
    CHECK(parameters(point_of(each.at("config")).model) == each.at("parameters"));
  }
}

TEST_CASE("Hugging Face: public models have as many parameters as their pages and transformers say") {
  const std::string file = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/public_models.json";
  const ordered_json fixture = parse_json(read_text_file(file), file);
  int published = 0;
  for (const ordered_json& each : fixture.at("models")) {
    INFO(each.at("model").dump());
    CHECK(parameters(point_of(each.at("config")).model) == each.at("parameters"));
    if (each.at("published").is_null()) continue;
    CHECK(each.at("published") == each.at("parameters"));
    ++published;
  }
  CHECK(published >= 45);
}

TEST_CASE("Hugging Face: what is exported is the same model, for each type that says it") {
  const std::string file = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/configs.json";
  const ordered_json fixture = parse_json(read_text_file(file), file);
  for (const ordered_json& each : fixture.at("cases")) {
    INFO(each.at("config").dump());
    const Point point = point_of(each.at("config"));
    ordered_json written;
    CHECK_NOTHROW(written = write_hugging_face(point));
    if (written.is_null()) continue;
    CHECK(differences(flat_point(point), flat_point(point_of(written)), "") == std::vector<std::string>{});
  }
}

TEST_CASE("Hugging Face: public models go out and come back the same") {
  const std::string file = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/public_models.json";
  const ordered_json fixture = parse_json(read_text_file(file), file);
  for (const ordered_json& each : fixture.at("models")) {
    INFO(each.at("model").dump());
    const Point point = point_of(each.at("config"));
    ordered_json written;
    CHECK_NOTHROW(written = write_hugging_face(point));
    if (written.is_null()) continue;
    CHECK(differences(flat_point(point), flat_point(point_of(written)), "") == std::vector<std::string>{});
  }
  const ordered_json later = with(kLlama, {{"model_type", "qwen2"},
                                           {"num_key_value_heads", 4},
                                           {"use_sliding_window", true},
                                           {"sliding_window", 32},
                                           {"max_window_layers", 2}});
  CHECK(differences(flat_point(point_of(later)), flat_point(point_of(write_hugging_face(point_of(later)))), "") ==
        std::vector<std::string>{});
}

TEST_CASE("Hugging Face: a model is exported as the type that is best known for it") {
  for (const auto& [preset, type] : {std::pair{"llama-3-8b", "llama"},
                                     {"gpt2-124m", "gpt2"},
                                     {"mixtral-8x7b", "mixtral"},
                                     {"qwen3-30b-a3b", "qwen3_moe"},
                                     {"deepseek-v3", "deepseek_v3"},
                                     {"bert-base-uncased", "bert"}}) {
    Point point;
    point.model = find_preset(preset, "");
    point.attention = AttentionKind::flash;
    if (!point.model.parts().bias) point.dropout = 0;
    CHECK(write_hugging_face(point).at("model_type") == type);
  }
}

TEST_CASE("Hugging Face: presets of mbench go out and come back, or their refusal names what no type says") {
  int said = 0;
  for (const ModelSpec& preset : model_presets()) {
    Point point;
    point.model = preset;
    point.attention = AttentionKind::flash;
    point.dropout = preset.parts().norm == NormKind::layer_norm && preset.parts().bias ? 0.1 : 0;
    INFO(preset.name);
    try {
      const Point again = point_of(write_hugging_face(point));
      CHECK(differences(flat_point(point).at("model"), flat_point(again).at("model"), "model") ==
            std::vector<std::string>{});
      ++said;
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::unsupported);
      CHECK_THAT(e.what(), Contains("model."));
    }
  }
  CHECK(said >= 25);
}

TEST_CASE("Hugging Face: every type's table has a source, and its rules are there") {
  std::set<std::string> types;
  for (const Table& table : hugging_face_tables()) {
    INFO(table.name);
    CHECK_FALSE(table.source.empty());
    CHECK_FALSE(table.types.empty());
    CHECK((!table.rows.empty() || !table.lacks.empty()));
    for (const std::string& type : table.types) CHECK(types.insert(type).second);
    if (table.lacks.empty())
      CHECK_NOTHROW(imported({{"model_type", table.types.front()}, {"head_dim", 128}}, {"use_qk_norm", "dropout"}));
  }
  for (const char* wanted :
       {"llama",      "mistral",     "mixtral",      "qwen2",       "qwen2_moe",   "qwen3",    "qwen3_moe",
        "gpt2",       "gpt_neox",    "bert",         "deepseek_v2", "deepseek_v3", "kimi_k2",  "gemma",
        "gemma2",     "gemma3_text", "phi3",         "falcon",      "gptj",        "bloom",    "mpt",
        "opt",        "olmo2",       "cohere",       "glm",         "glm4",        "glm4_moe", "dbrx",
        "starcoder2", "internlm2",   "gpt_oss",      "llama4",      "qwen3_next",  "nemotron", "nemotron_h",
        "mamba2",     "mamba",       "falcon_mamba", "jamba"})
    CHECK(types.count(wanted) == 1);
}

TEST_CASE("Hugging Face: what mbench has no part for is named with its key and value") {
  const auto names = [](const std::string& message, std::vector<std::string> wanted) {
    INFO(message);
    for (const std::string& each : wanted) CHECK(message.find(each) != std::string::npos);
  };
  names(refusal(with(kLlama, {{"attention_dropout", 0.1}})), {"config.json", "attention_dropout 0.1", "--without"});
  names(refusal(with(kLlama, {{"hidden_act", "quick_gelu"}, {"attention_dropout", 0.1}})),
        {"hidden_act \"quick_gelu\"", "attention_dropout 0.1"});
  names(refusal({{"model_type", "opt"}, {"do_layer_norm_before", false}}),
        {"do_layer_norm_before false", "attention_dropout 0"});
  names(refusal({{"model_type", "nemotron_h"}, {"hybrid_override_pattern", "M*X"}}), {"layers of other kinds"});
  names(refusal({{"model_type", "qwen3_moe"}, {"decoder_sparse_step", 100}}), {"experts in no layer"});
  names(refusal({{"model_type", "bert"}, {"hidden_dropout_prob", 0.2}}),
        {"attention_probs_dropout_prob", "hidden_dropout_prob"});
  names(refusal({{"model_type", "lama"}}), {"got \"lama\"", "need one of afmoe", " llama, "});
  const ordered_json llava = {
      {"model_type", "llava"}, {"vision_config", {{"hidden_size", 64}}}, {"text_config", kLlama}};
  names(refusal(llava), {"vision_config", "--without vision_config"});
  const Imported text = imported(llava, {"vision_config"});
  CHECK(text.spec.at("model").at("layers") == 3);
  CHECK_THAT(fmt::format("{}", fmt::join(text.notes, "\n")), Contains("only the language model"));
}

TEST_CASE("Hugging Face: what is said of the whole model holds for its language model") {
  const ordered_json gemma = {{"model_type", "gemma3"},
                              {"torch_dtype", "bfloat16"},
                              {"tie_word_embeddings", false},
                              {"text_config", {{"model_type", "gemma3_text"}, {"hidden_size", 1152}}}};
  const ordered_json spec = imported(gemma).spec;
  CHECK(spec.at("precision") == "bf16");
  CHECK(spec.at("model").value("tied_embedding", false) == false);
  CHECK(imported(gemma.at("text_config")).spec.at("model").at("tied_embedding") == true);
}

TEST_CASE("Hugging Face: a config without a dtype says which precision that is") {
  CHECK_THAT(fmt::format("{}", fmt::join(imported(kLlama).notes, "\n")),
             Contains("no torch_dtype is said: precision f32"));
  CHECK_THAT(fmt::format("{}", fmt::join(imported(with(kLlama, {{"dtype", "bfloat16"}})).notes, "\n")),
             !Contains("torch_dtype"));
  CHECK(imported({{"model_type", "gpt_oss"}}).spec.at("precision") == "bf16");
}

TEST_CASE("Hugging Face: windows are part of fused attention, also where eager is asked for") {
  const Imported eager = imported({{"model_type", "gemma2"}, {"_attn_implementation", "eager"}});
  CHECK(eager.spec.at("attention") == "flash");
  CHECK_THAT(fmt::format("{}", fmt::join(eager.notes, "\n")), Contains("attn_implementation eager is read as flash"));
  CHECK(imported(with(kLlama, {{"_attn_implementation", "eager"}})).spec.at("attention") == "core");
  CHECK_THAT(refusal({{"model_type", "gemma3_text"}, {"use_bidirectional_attention", true}}),
             Contains("windows of attention in both directions"));
}

TEST_CASE("Hugging Face: numbers that are none, as Python writes them") {
  const auto limit = [](const std::string& value) {
    return parse_python_json(R"({"name": "Infinity \\\" NaN", "limit": [0.0, )" + value + "]}", "config.json");
  };
  CHECK(limit("Infinity").at("limit")[1] == ordered_json({{"__float__", "Infinity"}}));
  CHECK(limit("-Infinity").at("limit")[1] == ordered_json({{"__float__", "-Infinity"}}));
  CHECK(limit("NaN").at("name") == "Infinity \\\" NaN");
  CHECK_THROWS_WITH(limit("Infinite"), Contains("not JSON"));
}

TEST_CASE("Hugging Face: one of two dropouts can be left out") {
  const ordered_json opt = {{"model_type", "opt"}, {"dropout", 0.1}, {"attention_dropout", 0.0}};
  const auto dropout = [&](const char* without) {
    return point_from_json(json(imported(opt, {without}).spec), "spec").dropout;
  };
  CHECK(dropout("dropout") == 0);
  CHECK(dropout("attention_dropout") == 0.1);
}

TEST_CASE("Hugging Face: layer norms of queries and keys are by head, or the same for all heads") {
  const auto norm = [](const char* type, const char* key) {
    return imported({{"model_type", type}, {key, true}}).spec.at("model").at("qk_norm");
  };
  CHECK(norm("cohere", "use_qk_norm") == "layer_norm_by_head");
  CHECK(norm("stablelm", "qk_layernorm") == "layer_norm_by_head");
  CHECK(norm("phi", "qk_layernorm") == "layer_norm");
}

TEST_CASE("Hugging Face: --without leaves a key out and says so") {
  const ordered_json config =
      with(kLlama, {{"model_type", "mistral"}, {"num_key_value_heads", 2}, {"sliding_window", 64}});
  const Imported found = imported(config, {"sliding_window"});
  CHECK_THAT(fmt::format("{}", fmt::join(found.notes, "\n")), Contains("left out, as asked: sliding_window 64"));
}

TEST_CASE("Hugging Face: keys without meaning for cost, and unknown ones, are listed") {
  const Imported found = imported(with(kLlama, {{"architectures", {"LlamaForCausalLM"}},
                                                {"bos_token_id", 1},
                                                {"my_gate", 3},
                                                {"rope_scaling", {{"type", "ntk"}, {"factor", 2}}}}));
  const std::string notes = fmt::format("{}", fmt::join(found.notes, "\n"));
  CHECK_THAT(notes, Contains("without meaning for cost: ") && Contains("architectures") && Contains("bos_token_id"));
  CHECK_THAT(notes, Contains("rope_scaling \"ntk\" turns by other angles"));
  CHECK_THAT(notes, Contains("not known to mbench, and not in the spec: my_gate 3"));
}

namespace {

// Of each layer what the model is there, and what the rest of a config says.
std::vector<ordered_json> by_layer(const Point& p) {
  ordered_json whole = flat_point(p);
  whole.at("model").erase("layers_of");
  const double scale = p.model.parts().attention_scale;  // as it is by default, or said
  if (std::abs(scale * std::sqrt(static_cast<double>(p.model.head_dim())) - 1) < 1e-9)
    whole.at("model")["attention_scale"] = 0;
  std::vector<ordered_json> all = {whole.at("model"), whole.at("attention"), whole.at("dropout")};
  for (std::int64_t i = 0; i < p.model.layers; ++i) {
    Point one = p;
    one.model = p.model.at_layer(i);
    one.model.layers = 1;
    ordered_json layer = flat_point(one).at("model");
    layer.erase("attention_scale");
    all.push_back(std::move(layer));
  }
  return all;
}

}  // namespace

TEST_CASE("Hugging Face: a key that is not there has the default of transformers' class") {
  const std::string file = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/config_defaults.json";
  const ordered_json fixture = parse_json(read_text_file(file), file);
  // Classes whose own defaults are no model, and one that is a model of several kinds.
  const std::map<std::string, std::string> none = {{"deepseek_v2", "no experts for a token"},
                                                   {"dots1", "no experts"},
                                                   {"glm4_moe", "heads that do not divide hidden"},
                                                   {"llama4", "a tower for images"}};
  std::set<std::string> known;
  for (const Table& table : hugging_face_tables()) known.insert(table.types.begin(), table.types.end());
  std::size_t compared = 0;
  for (const ordered_json& each : fixture.at("cases")) {
    const std::string type = each.at("type");
    INFO(type);
    REQUIRE(known.contains(type));
    if (none.contains(type)) continue;
    ordered_json defaults = each.at("config");
    defaults.erase("num_nextn_predict_layers");  // how many depths a checkpoint has, of which its class trains none
    // Two kinds of dropout, where mbench has one.
    const std::vector<std::string> without =
        type == "opt" ? std::vector<std::string>{"attention_dropout"} : std::vector<std::string>{};
    const auto read = [&](const ordered_json& given) {
      return by_layer(point_from_json(json(imported(given, without).spec), "spec"));
    };
    const std::vector<ordered_json> all = read(defaults), shortest = read({{"model_type", type}});
    REQUIRE(all.size() == shortest.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(differences(all[i], shortest[i], i < 3 ? "" : fmt::format("layer {}", i - 3)) ==
            std::vector<std::string>{});
    ++compared;
  }
  CHECK(compared + none.size() == fixture.at("cases").size());
  CHECK(compared > 90);
}

TEST_CASE("Hugging Face: classes that label samples are read as such and written back") {
  const auto labels = [](const ordered_json& more) { return point_of(with(kLlama, more)).model.labels; };
  const ordered_json classes = {"LlamaForSequenceClassification"};
  CHECK(labels({{"architectures", {"LlamaForCausalLM"}}, {"num_labels", 7}}) == 0);
  CHECK(labels({{"architectures", classes}}) == 2);  // by default
  CHECK(labels({{"architectures", classes}, {"num_labels", 7}}) == 7);
  CHECK(labels({{"architectures", classes}, {"id2label", {{"0", "no"}, {"1", "perhaps"}, {"2", "yes"}}}}) == 3);
  const ordered_json written =
      write_hugging_face(point_of(with(kLlama, {{"architectures", classes}, {"num_labels", 3}})));
  CHECK(written.at("architectures") == classes);
  CHECK(written.at("id2label") == ordered_json({{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}}));
  CHECK(point_of(written).model.labels == 3);
  const auto refused = [](const ordered_json& config, const std::string& why) {
    CHECK_THROWS_WITH(point_of(config), Contains(why));
  };
  refused(with(kLlama, {{"architectures", classes}, {"num_labels", 1}}), "num_labels 1");
  refused(with(kLlama, {{"architectures", classes}, {"problem_type", "multi_label_classification"}}),
          "several labels of a sample");
  refused(with(kLlama, {{"architectures", {"MistralForSequenceClassification"}}}),
          "another class than LlamaForSequenceClassification");
  refused(with(kLlama, {{"model_type", "cohere"}, {"architectures", {"CohereForSequenceClassification"}}}),
          "which transformers' classes of this type do not predict");
  refused({{"model_type", "bert"}, {"architectures", {"BertForSequenceClassification"}}, {"classifier_dropout", 0.5}},
          "classifier_dropout 0.5");
  // No class of the type predicts what the spec has.
  Point point = point_of({{"model_type", "apertus"}});
  point.model.labels = 3;
  CHECK_THROWS_WITH(write_hugging_face(point), Contains("model.labels 3"));
  // Transformers' classes leave out what only predicts words.
  const ordered_json ahead = {{"model_type", "deepseek_v3"},
                              {"architectures", {"DeepseekV3ForSequenceClassification"}},
                              {"num_nextn_predict_layers", 1}};
  CHECK(point_of(ahead).model.mtp_layers == 0);
  CHECK(point_of(ahead).model.labels == 2);
}

TEST_CASE("Hugging Face: published configurations are mbench's presets") {
  const ordered_json llama3 = {{"model_type", "llama"},
                               {"num_hidden_layers", 126},
                               {"hidden_size", 16384},
                               {"num_attention_heads", 128},
                               {"num_key_value_heads", 8},
                               {"intermediate_size", 53248},
                               {"vocab_size", 128256},
                               {"max_position_embeddings", 131072},
                               {"rms_norm_eps", 1e-5},
                               {"rope_theta", 500000.0},
                               {"torch_dtype", "bfloat16"},
                               {"rope_scaling",
                                {{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 8192}}}};
  const auto same = [](const ordered_json& config, const char* preset) {
    INFO(preset);
    Point point;
    point.model = find_preset(preset, "");
    CHECK(differences(flat_point(point).at("model"), flat_point(point_of(config)).at("model"), "model") ==
          std::vector<std::string>{});
  };
  same(llama3, "llama-3.1-405b");
  CHECK(point_of(llama3).precision == Precision::bf16);
  CHECK(point_of(llama3).attention == AttentionKind::flash);
  ordered_json fifth = llama3;  // as version 5 writes it
  fifth["rope_parameters"] = fifth["rope_scaling"];
  fifth["rope_parameters"]["rope_theta"] = 500000.0;
  fifth["dtype"] = "bfloat16";
  for (const char* old : {"rope_scaling", "rope_theta", "torch_dtype"}) fifth.erase(old);
  same(fifth, "llama-3.1-405b");
  CHECK(point_of(fifth).precision == Precision::bf16);
  same({{"model_type", "gpt2"}, {"n_layer", 24}, {"n_embd", 1024}, {"n_head", 16}}, "gpt2-345m");
  same({{"model_type", "bert"}}, "bert-base-uncased");
  same({{"model_type", "deepseek_v3"}}, "deepseek-v3");  // 8 groups, of which 4, are its class's own
  same({{"model_type", "qwen2"},
        {"num_hidden_layers", 28},
        {"hidden_size", 3584},
        {"num_attention_heads", 28},
        {"num_key_value_heads", 4},
        {"intermediate_size", 18944},
        {"vocab_size", 152064},
        {"rope_theta", 1000000},
        {"use_sliding_window", false},
        {"sliding_window", 131072}},
       "qwen2.5-7b");
  same({{"model_type", "gemma"}}, "gemma-7b");
  same({{"model_type", "falcon"}}, "falcon-7b");
  same({{"model_type", "falcon"},
        {"num_hidden_layers", 60},
        {"hidden_size", 8192},
        {"num_attention_heads", 128},
        {"num_kv_heads", 8},
        {"new_decoder_architecture", true}},
       "falcon-40b");
  same({{"model_type", "gptj"}}, "gpt-j-6b");
  same({{"model_type", "cohere"}, {"max_position_embeddings", 131072}, {"rope_theta", 8000000}}, "command-r");
  same({{"model_type", "mixtral"}, {"max_position_embeddings", 32768}, {"router_aux_loss_coef", 0.02}}, "mixtral-8x7b");
}

TEST_CASE("Hugging Face: the model of a spec can be that of a config.json beside it") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("mbench-hf-{}", getpid());
  std::filesystem::create_directories(folder / "models");
  std::ofstream(folder / "models/config.json") << with(kLlama, {{"torch_dtype", "bfloat16"}}).dump();
  const std::string spec = (folder / "spec.json").string();
  const auto of = [&](const char* text) { return with_model_of_config(text, spec); };
  const auto found = of(R"({"model": {"hf": "models/config.json", "layers": 5}, "tp": 2, "dropout": 0})");
  const auto other = of(R"({"model": {"hf": "models/config.json"}, "precision": "f32"})");
  CHECK_FALSE(of(R"({"model": "llama-3-8b"})"));
  CHECK_THROWS_WITH(of(R"({"model": {"hf": "spec.json"}})"), Contains("spec.json"));
  std::filesystem::remove_all(folder);
  REQUIRE(found);
  REQUIRE(other);
  const Point point = point_from_json(json(found->spec), "spec");
  CHECK(point.model.layers == 5);
  CHECK(point.model.hidden == 64);
  CHECK(point.tp == 2);
  CHECK(point.precision == Precision::bf16);
  CHECK(point_from_json(json(other->spec), "spec").precision == Precision::f32);
}

TEST_CASE("Hugging Face: the sequence is no longer than the model's own where that is short") {
  CHECK(point_of(kLlama).seq == 128);
  CHECK_FALSE(imported(with(kLlama, {{"max_position_embeddings", 4096}})).spec.contains("seq"));
}
