// What several flags of Megatron-LM say of the model together.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/megatron/hybrid_rules.h"
#include "formats/megatron/layer_pattern.h"
#include "formats/table/layers.h"
#include "formats/table/rules.h"

namespace mbench::formats {
namespace {

bool holds(const Reading& r, std::string_view field, const json& value) {
  const auto found = r.get(field);
  return found && *found == value;
}

// The block's activation and width; a gated one is narrower by default, so that it has as many weights.
void read_model(Reading& r) {
  const bool quick = r.flag("--quick-geglu"), gated = r.flag("--swiglu") || quick, squared = r.flag("--squared-relu");
  const std::int64_t hidden = r.whole("--hidden-size", 1 << 20);
  r.set("model.activation", quick ? "clamped_swiglu" : gated ? "swiglu" : squared ? "squared_relu" : "gelu");
  const json offset = r.value("--glu-linear-offset", 0), clamp = r.value("--activation-func-clamp-value");
  if (quick && (offset != 1 || clamp != 7))
    r.lack("--quick-geglu",
           "a gate of quick GELU without --glu-linear-offset 1 and --activation-func-clamp-value 7, GPT-OSS's");
  r.set("model.ffn", r.value("--ffn-hidden-size", gated ? (4 * hidden * 2 / 3) / 64 * 64 : 4 * hidden));
  const bool words = holds(r, "model.objective", "next_token");
  r.set("model.causal", words);
  r.set("model.token_types", words ? 0 : 2);
}
void write_model(Writing& w) {
  const json activation = w.at("model.activation");
  if (activation == "swiglu") w.put("--swiglu", true);
  if (activation == "squared_relu") w.put("--squared-relu", true);
  if (activation == "clamped_swiglu") {
    w.put("--quick-geglu", true);
    w.put("--glu-linear-offset", 1.0);
    w.put("--activation-func-clamp-value", 7.0);
  }
  w.put("--ffn-hidden-size", w.at("model.ffn"));
}

void read_positions(Reading& r) {
  json kind = r.value("--position-embedding-type", "learned_absolute");
  if (r.flag("--use-rotary-position-embeddings")) kind = "rope";
  const bool latent = r.flag("--multi-latent-attention");
  if (kind != "rope" && kind != "learned_absolute" && kind != "none" && !(kind == "yarn" && latent))
    r.lack("--position-embedding-type", "other positions");
  const bool learned = kind == "learned_absolute" || kind == "none";  // no angles
  r.set("model.position", kind == "none" ? "none" : learned ? "learned" : "rotary");
  const json base = r.value("--rotary-base", 10000), percent = r.value("--rotary-percent", 1),
             scaled = r.value("--use-rope-scaling", false), factor = r.value("--rope-scaling-factor", 8);
  if (learned && !latent) return;
  r.set("model.rope.base", base);
  r.set("model.rope.fraction", percent);
  if (scaled != json(true)) return;
  r.set("model.rope.scaling",
        {{"factor", factor}, {"low_frequency_factor", 1}, {"high_frequency_factor", 4}, {"original_positions", 8192}});
}
void write_positions(Writing& w) {
  const bool latent = w.at("model.attention_form") == "latent";
  const bool rotary = w.at("model.position") == "rotary";
  if (rotary) w.put("--position-embedding-type", "rope");
  if (w.at("model.position") == "none" && !latent) w.put("--position-embedding-type", "none");
  if (w.at("model.position") == "alibi") w.cannot("model.position");
  if (!rotary && !latent) return;
  if (latent) w.put("--rope-type", "rope");
  w.put("--rotary-base", w.at("model.rope.base"));
  if (w.number("model.rope.fraction") != 1) w.put("--rotary-percent", w.at("model.rope.fraction"));
  const json scaling = w.at("model.rope.scaling");
  if (scaling.is_null()) return;
  w.put("--use-rope-scaling", true);
  w.put("--rope-scaling-factor", scaling.at("factor"));
}

// Of all linear layers, the router among them, or of queries, keys and values alone. Latent attention has none.
const json kBiasesWithExperts = {"qkv", "proj", "dense", "experts", "router"};
void read_biases(Reading& r) {
  const bool none = r.flag("--disable-bias-linear"), qkv = r.flag("--add-qkv-bias"),
             latent = r.flag("--multi-latent-attention");
  const json experts = r.value("--num-experts");
  const json all = experts.is_number() && experts != 0 ? kBiasesWithExperts : json(true);
  r.set("model.bias", !none ? all : qkv && !latent ? json::array({"qkv"}) : json(false));
}
void write_biases(Writing& w) {
  const json bias = w.at("model.bias");
  if (w.number("model.experts") > 0 ? bias == kBiasesWithExperts : bias == true) return;
  w.put("--disable-bias-linear", true);
  if (bias == json::array({"qkv"}))
    w.put("--add-qkv-bias", true);
  else if (bias != false)
    w.cannot("model.bias");
}

// A window of so many tokens before a query and its own, in all layers or all but those of a pattern; a sink that is learned.
void read_window(Reading& r) {
  const json window = r.value("--window-size"), pattern = r.value("--window-attn-skip-freq"),
             softmax = r.value("--softmax-type", "vanilla");
  if (softmax == "learnable") r.set("model.attention_sinks", true);
  if (softmax != "learnable" && softmax != "vanilla") r.lack("--softmax-type", "a fixed sink of attention");
  if (window.is_null()) return;
  const std::vector<std::int64_t> sides = two_sides(window);
  if (sides.size() != 2 || sides[1] > 0) return r.lack("--window-size", "a window on what comes behind");
  if (sides[0] < 0) return;  // as long as the sequence
  r.set("model.window", sides[0] + 1);
  if (pattern.is_null()) return;
  // 1 is a layer with a window. A number N: every N-th has none, the last one of them.
  const std::int64_t layers = r.whole("--num-layers", 16384);
  const std::vector<int> windows = layer_pattern(pattern, layers, true);
  if (windows.empty()) return r.lack("--window-attn-skip-freq", "a pattern of other than so many layers");
  add_layers(r, rules_of_layers(layers_that_are(windows, 0), layers, {{"window", 0}}));
}
void write_window(Writing& w) {
  if (w.at("model.attention_sinks") == true) w.put("--softmax-type", "learnable");
  const std::int64_t window = static_cast<std::int64_t>(w.number("model.window")),
                     layers = static_cast<std::int64_t>(w.number("model.layers"));
  const json rules = w.at("model.layers_of");
  const std::vector<bool> full = layers_with(rules, layers, "window", 0);
  const bool some = std::find(full.begin(), full.end(), true) != full.end();
  if (!rules_say(rules, {"window", "experts"}) || (some && window == 0) || (full.empty() && !rules.is_null()))
    return w.cannot("model.layers_of");
  if (window == 0) return;
  w.put("--window-size", fmt::format("{},0", window - 1));
  if (some) w.put("--window-attn-skip-freq", pattern_text(full));
}

// One norm of all heads' queries and one of keys, of the kind that layers have, or one without weights.
void read_heads(Reading& r) {
  const bool latent = r.flag("--multi-latent-attention"), normed = r.flag("--qk-layernorm"),
             weightless = r.flag("--qk-l2-norm");
  const json groups = r.value("--num-query-groups", 1);
  if (r.flag("--group-query-attention")) r.set("model.kv_heads", groups);
  if (latent && !normed) r.lack("--qk-layernorm", "latents that are not normed", false);
  const bool of_layers = normed && !holds(r, "model.norm", "rms_norm");
  if (latent && of_layers) r.lack("--qk-layernorm", "layer norms of latents");
  r.set("model.qk_norm", weightless             ? json("without_weights")
                         : of_layers && !latent ? json("layer_norm")
                                                : json(normed && !latent));
}
void write_heads(Writing& w) {
  const bool latent = w.at("model.attention_form") == "latent";
  const json norm = w.at("model.qk_norm");
  if (norm == true || norm == "layer_norm" || latent) w.put("--qk-layernorm", true);
  if (norm == "without_weights") w.put("--qk-l2-norm", true);
  if (latent || w.at("model.kv_heads") == w.at("model.heads")) return;
  w.put("--group-query-attention", true);
  w.put("--num-query-groups", w.at("model.kv_heads"));
}

constexpr std::pair<const char*, const char*> kLatent[] = {{"--kv-lora-rank", "model.kv_lora_rank"},
                                                           {"--qk-head-dim", "model.qk_nope_head_dim"},
                                                           {"--qk-pos-emb-head-dim", "model.qk_rope_head_dim"},
                                                           {"--v-head-dim", "model.v_head_dim"}};
constexpr int kLatentDefaults[] = {32, 128, 64, 128};

void read_latent(Reading& r) {
  const bool latent = r.flag("--multi-latent-attention");
  const json q_rank = r.value("--q-lora-rank");
  r.set("model.attention_form", latent ? "latent" : "multi_head");
  for (std::size_t i = 0; i < std::size(kLatent); ++i) {
    const json size = r.value(kLatent[i].first, kLatentDefaults[i]);
    if (latent) r.set(kLatent[i].second, size);
  }
  if (latent) r.set("model.q_lora_rank", q_rank.is_null() ? json(0) : q_rank);
}
void write_latent(Writing& w) {
  if (w.at("model.attention_form") != "latent") return;
  w.put("--multi-latent-attention", true);
  if (w.number("model.q_lora_rank") > 0) w.put("--q-lora-rank", w.at("model.q_lora_rank"));
  for (const auto& [flag, field] : kLatent) w.put(flag, w.at(field));
}

void read_experts(Reading& r) {
  const json experts = r.value("--num-experts");
  const json topk = r.value("--moe-router-topk", 2), frequency = r.value("--moe-layer-freq", 1);
  const json width = r.value("--moe-ffn-hidden-size", r.get("model.ffn").value_or(json(0)));
  r.value("--moe-shared-expert-intermediate-size");
  const bool gate = r.flag("--moe-shared-expert-gate");
  if (experts.is_null())
    return r.set("model.family", r.flag("--multi-latent-attention")   ? "deepseek"
                                 : holds(r, "model.norm", "rms_norm") ? "llama"
                                 : holds(r, "model.causal", false)    ? "bert"
                                                                      : "gpt");
  r.set("model.family", r.flag("--multi-latent-attention") ? "deepseek" : "mixtral");
  r.set("model.experts", experts);
  r.set("model.active_experts", topk);
  r.set("model.expert_ffn", width);
  // 1 is a layer with experts. A number N: every N-th, the first one of them.
  const std::int64_t layers = r.whole("--num-layers", 16384);
  const std::vector<int> pattern = layer_pattern(frequency, layers, false);
  const auto first = std::find(pattern.begin(), pattern.end(), 1);
  const bool dense_first = !pattern.empty() && std::find(first, pattern.end(), 0) == pattern.end();
  if (pattern.empty()) return r.lack("--moe-layer-freq", "a pattern of other than so many layers");
  if (first == pattern.end()) return r.lack("--moe-layer-freq", "experts in no layer");
  if (dense_first)
    r.set("model.dense_layers", first - pattern.begin());
  else
    add_layers(r, rules_of_layers(layers_that_are(pattern, 0), layers, {{"experts", 0}}));
  if (first == pattern.begin() && dense_first) r.set("model.ffn", width);  // which no layer has
  if (gate) r.set("model.shared_gate", true);
  const double one = width.is_number() ? width.get<double>() : 0,
               all = r.number("--moe-shared-expert-intermediate-size", 0);
  if (one >= 1 && all < 1e15 && std::fmod(all, one) == 0)
    return r.set("model.shared_experts", static_cast<std::int64_t>(all / one));
  r.set("model.shared_experts", 1);
  r.set("model.shared_expert_ffn", all);
}
void write_experts(Writing& w) {
  const json experts = w.at("model.experts");
  if (experts.is_null()) return;
  w.put("--num-experts", experts);
  w.put("--moe-router-topk", w.at("model.active_experts"));
  w.put("--moe-ffn-hidden-size", w.at("model.expert_ffn"));
  if (const double dense = w.number("model.dense_layers"); dense > 0)
    w.put("--moe-layer-freq", fmt::format("([0]*{}+[1]*{})", dense, w.number("model.layers") - dense));
  const std::vector<bool> without =
      layers_with(w.at("model.layers_of"), static_cast<std::int64_t>(w.number("model.layers")), "experts", 0);
  if (std::find(without.begin(), without.end(), true) != without.end())
    w.put("--moe-layer-freq", pattern_text(without));
  if (w.at("model.shared_gate") == true) w.put("--moe-shared-expert-gate", true);
  if (const json width = w.at("model.shared_expert_ffn"); !width.is_null())
    w.put("--moe-shared-expert-intermediate-size", width);
}

// Softmax over all experts and no division is `pre-softmax`; over the chosen ones, or a sigmoid's division, is the usual.
void read_routing(Reading& r) {
  const json score = r.value("--moe-router-score-function", "softmax"),
             scale = r.value("--moe-router-topk-scaling-factor"), groups = r.value("--moe-router-num-groups"),
             chosen = r.value("--moe-router-group-topk"),
             kind = r.value("--moe-router-load-balancing-type", "aux_loss"),
             coefficient = r.value("--moe-aux-loss-coeff", 0), z_loss = r.value("--moe-z-loss-coeff"),
             speed = r.value("--moe-router-bias-update-rate", 0.001);
  const bool pre = r.flag("--moe-router-pre-softmax"), biased = r.flag("--moe-router-enable-expert-bias"),
             inputs = r.flag("--moe-apply-probs-on-input");
  if (!r.get("model.experts")) return;
  if (score != "softmax" && score != "sigmoid") r.lack("--moe-router-score-function", "another score");
  r.set("model.routing.score", score);
  if (inputs) r.set("model.routing.weighted", "input");
  r.set("model.routing.normalise", !(pre && score == "softmax"));
  r.set("model.routing.scale", scale.is_null() ? json(1) : scale);
  const bool losses = kind == "aux_loss" || kind == "seq_aux_loss" || kind == "global_aux_loss";
  if (!losses && kind != "none") r.lack("--moe-router-load-balancing-type", "another balancing");
  r.set("model.routing.balance_loss", losses ? coefficient : json(0));
  r.set("model.routing.z_loss", z_loss.is_null() ? json(0) : z_loss);
  r.set("model.routing.correction_speed", biased ? speed : json(0));
  if (groups.is_null() || groups == 1) return;
  r.set("model.routing.groups", groups);
  r.set("model.routing.chosen_groups", chosen);
  const double each =
      chosen.is_number() && chosen != 0 ? std::floor(r.number("--moe-router-topk", 2) / chosen.get<double>()) : 0;
  if (each != 1 && each != 2) r.lack("--moe-router-group-topk", "groups by the sum of more than two scores");
  r.set("model.routing.group_score", each == 2 ? "best_two" : "best");
}
void write_routing(Writing& w) {
  if (w.at("model.experts").is_null()) return;
  const json score = w.at("model.routing.score");
  if (score != "softmax") w.put("--moe-router-score-function", score);
  if (score == "softmax" && w.at("model.routing.normalise") == false) w.put("--moe-router-pre-softmax", true);
  if (w.number("model.routing.scale") != 1) w.put("--moe-router-topk-scaling-factor", w.at("model.routing.scale"));
  if (w.at("model.routing.weighted") == "input") w.put("--moe-apply-probs-on-input", true);
  w.put("--moe-router-load-balancing-type", w.number("model.routing.balance_loss") > 0 ? "aux_loss" : "none");
  if (w.number("model.routing.balance_loss") > 0) w.put("--moe-aux-loss-coeff", w.at("model.routing.balance_loss"));
  if (w.number("model.routing.z_loss") > 0) w.put("--moe-z-loss-coeff", w.at("model.routing.z_loss"));
  if (w.number("model.routing.correction_speed") > 0) {
    w.put("--moe-router-enable-expert-bias", true);
    w.put("--moe-router-bias-update-rate", w.at("model.routing.correction_speed"));
  }
  if (w.at("model.routing.groups").is_null()) return;
  w.put("--moe-router-num-groups", w.at("model.routing.groups"));
  w.put("--moe-router-group-topk", w.at("model.routing.chosen_groups"));
}

void read_mtp(Reading& r) {
  const json depths = r.value("--mtp-num-layers"), factor = r.value("--mtp-loss-scaling-factor", 0.1);
  const bool repeats = r.flag("--mtp-use-repeated-layer");
  const json pattern = r.value("--hybrid-layer-pattern");
  const bool lettered = pattern.is_string() && pattern.get<std::string>().find('/') != std::string::npos;
  if (!lettered && (depths.is_null() || depths == 0)) return;
  r.set("model.mtp_layers", depths.is_null() ? json(0) : depths);  // those of letters count
  r.set("model.mtp_loss_scaling_factor", factor);
  if (repeats) r.set("model.mtp_use_repeated_layer", true);
}
void write_mtp(Writing& w) {
  if (w.number("model.mtp_layers") == 0) return;
  w.put("--mtp-num-layers", w.at("model.mtp_layers"));
  if (w.at("model.mtp_use_repeated_layer") == true) w.put("--mtp-use-repeated-layer", true);
  w.put("--mtp-loss-scaling-factor", w.at("model.mtp_loss_scaling_factor"));
}

// Words before padding. A tokenizer's own number is in its files, but for GPT-2's.
void read_vocabulary(Reading& r) {
  json words = r.value("--vocab-size");
  const json tokenizer = r.value("--tokenizer-type"), multiple = r.value("--make-vocab-size-divisible-by", 128);
  const bool gpt2 = tokenizer == "GPT2BPETokenizer" || (tokenizer.is_null() && r.find("--merge-file"));
  if (words.is_null() && gpt2) {
    words = 50257;
    r.note("the vocabulary is GPT-2's, 50257 words");
  }
  if (words.is_null())
    fail(ErrorKind::bad_input, r.file(),
         "--vocab-size is missing, and the tokenizer {} does not say how many words it has, need --vocab-size N: "
         "mbench import ... --also \"--vocab-size N\"",
         tokenizer.is_null() ? "that is not named" : short_json(tokenizer));
  r.set("model.vocab", words);
  if (r.find("--make-vocab-size-divisible-by")) r.set("vocab_multiple", multiple);
}
void write_vocabulary(Writing& w) {
  w.put("--tokenizer-type", "NullTokenizer");
  w.put("--vocab-size", w.at("model.vocab"));
  const double multiple = w.number("vocab_multiple");
  const bool as_by_default =
      multiple == 128 || (multiple == 1 && std::fmod(w.number("model.vocab"), 128 * w.number("tp")) == 0);
  if (!as_by_default) w.put("--make-vocab-size-divisible-by", w.at("vocab_multiple"));
}

}  // namespace

const std::vector<Rule>& megatron_model_rules() {
  static const std::vector<Rule> rules = {{"megatron_model", read_model, write_model},
                                          {"megatron_positions", read_positions, write_positions},
                                          {"megatron_biases", read_biases, write_biases},
                                          {"megatron_window", read_window, write_window},
                                          {"megatron_heads", read_heads, write_heads},
                                          {"megatron_latent", read_latent, write_latent},
                                          {"megatron_experts", read_experts, write_experts},
                                          {"megatron_routing", read_routing, write_routing},
                                          {"megatron_mtp", read_mtp, write_mtp},
                                          hybrid_rule(),
                                          {"megatron_vocabulary", read_vocabulary, write_vocabulary}};
  return rules;
}

}  // namespace mbench::formats
