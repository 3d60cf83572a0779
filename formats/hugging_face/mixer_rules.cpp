// Configurations of models whose layers mix attention with what reads a sequence in its order: short convolutions, lightning attention, Mamba-2 beside
// attention, Gated DeltaNet with norms elsewhere.
#include <array>
#include <cmath>
#include <tuple>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"
#include "formats/table/layers.h"

namespace mbench::formats {
namespace {

// The layers of "layer_types" that are of a kind; without the list those that `usual` says.
template <class F>
std::vector<std::int64_t> layers_of_kind(Reading& r, std::int64_t layers, std::string_view kind, const F& usual) {
  const json types = r.value("layer_types");
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < layers; ++i)
    if (types.is_array() ? static_cast<std::size_t>(i) < types.size() && types[static_cast<std::size_t>(i)] == kind
                         : usual(i))
      chosen.push_back(i);
  return chosen;
}

// A mixer in all layers but those with attention, whose other parts may differ too.
void set_mixers(Reading& r, const char* mixer, const std::vector<std::int64_t>& attention, std::int64_t layers,
                json parts = json::object()) {
  if (static_cast<std::int64_t>(attention.size()) == layers) return;
  r.set("model.mixer", mixer);
  parts["mixer"] = "attention";
  add_layers(r, rules_of_layers(attention, layers, parts));
}

// Which layers have attention.
std::vector<bool> attention_of(const Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  if (w.at("model.mixer") == "attention") return std::vector<bool>(static_cast<std::size_t>(layers), true);
  std::vector<bool> all = layers_with(w.at("model.layers_of"), layers, "mixer", "attention");
  all.resize(static_cast<std::size_t>(layers));
  return all;
}
void put_layer_types(Writing& w, const char* other) {
  json types = json::array();
  for (const bool each : attention_of(w)) types.push_back(each ? "full_attention" : other);
  w.put("layer_types", types);
}

// A number whose `f` is exactly `wanted`: `guess`, or one of its neighbours.
template <class F>
double exactly_from(double guess, double wanted, const F& f) {
  constexpr int kNeighbours = 32;
  double up = guess, down = guess;
  for (int i = 0; i < kNeighbours; ++i) {
    if (f(up) == wanted) return up;
    if (f(down) == wanted) return down;
    up = std::nextafter(up, INFINITY), down = std::nextafter(down, -INFINITY);
  }
  return guess;
}

// LFM2: a block's width is adjusted as LLaMA's first code did.
void read_ffn_of_lfm2(Reading& r) {
  std::int64_t width = r.whole("intermediate_size", 1 << 22, 12288);
  const std::int64_t multiple = r.whole("block_multiple_of", 1 << 20, 256);
  const double times = r.number("block_ffn_dim_multiplier", 1);
  if (r.value("block_auto_adjust_ff_dim", true) == true) {
    width = static_cast<std::int64_t>(times * static_cast<double>(2 * width / 3));
    width = multiple * ((width + multiple - 1) / multiple);
  }
  r.set("model.ffn", width);
}
void write_ffn_of_lfm2(Writing& w) {
  w.put("intermediate_size", w.at("model.ffn"));
  w.put("block_auto_adjust_ff_dim", false);
}
void read_lfm2(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32);
  const json full = r.value("full_attn_idxs");
  set_mixers(r, "short_conv",
             layers_of_kind(r, layers, "full_attention",
                            [&](std::int64_t i) {
                              return !full.is_array() || std::find(full.begin(), full.end(), json(i)) != full.end();
                            }),
             layers);
}
void write_lfm2(Writing& w) {
  put_layer_types(w, "conv");
}

// The sizes of a Mamba-2 mixer, by the keys that Bamba and Falcon-H1 share. `inner`: columns of all heads.
void set_state_sizes(Reading& r, std::int64_t inner) {
  const std::int64_t heads = r.whole("mamba_n_heads", 1 << 16, 128);
  const json width = r.value("mamba_d_head", "auto");
  r.set("model.state_heads", heads);
  r.set("model.state_head_dim", width == "auto" ? json(inner / heads) : width);
  r.set("model.state_groups", r.value("mamba_n_groups", 1));
  r.set("model.state_dim", r.value("mamba_d_state", 256));
  r.set("model.conv_width", r.value("mamba_d_conv", 4));
  r.set("model.state_chunk", r.value("mamba_chunk_size", 256));
  const json limit = r.value("time_step_limit");
  if (limit.is_array() && limit.size() == 2 && (limit[0] != 0 || (limit[1].is_number() && limit[1] < 1e30)))
    r.lack("time_step_limit", "bounds of a scan's steps");
}
void put_state_sizes(Writing& w) {
  for (const auto& [key, field] : {std::pair{"mamba_n_heads", "model.state_heads"},
                                   {"mamba_d_head", "model.state_head_dim"},
                                   {"mamba_n_groups", "model.state_groups"},
                                   {"mamba_d_state", "model.state_dim"},
                                   {"mamba_d_conv", "model.conv_width"},
                                   {"mamba_chunk_size", "model.state_chunk"}})
    w.put(key, w.at(field));
}

void read_bamba(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32), hidden = r.whole("hidden_size", 1 << 20, 4096);
  set_state_sizes(r, static_cast<std::int64_t>(r.number("mamba_expand", 2)) * hidden);
  const json listed = r.value("attn_layer_indices");
  std::vector<std::int64_t> attention;
  for (std::int64_t i = 0; i < layers; ++i)
    if (listed.is_array() && std::find(listed.begin(), listed.end(), json(i)) != listed.end()) attention.push_back(i);
  set_mixers(r, "mamba2", attention, layers);
}
void write_bamba(Writing& w) {
  if (w.at("model.mixer") != "mamba2") return w.cannot("model.mixer", "it is mamba2 there");
  put_state_sizes(w);
  const std::vector<bool> attention = attention_of(w);
  json listed = json::array();
  for (std::size_t i = 0; i < attention.size(); ++i)
    if (attention[i]) listed.push_back(i);
  w.put("attn_layer_indices", listed);
  const double inner = w.number("model.state_heads") * w.number("model.state_head_dim");
  if (std::fmod(inner, w.number("model.hidden")) != 0) return w.cannot("model.state_heads");
  w.put("mamba_expand", static_cast<std::int64_t>(inner / w.number("model.hidden")));
}

// Falcon-H1: attention beside Mamba-2, with factors. Those of what attention reads and of its keys scale the scores, and the first scales values too.
void read_falcon_h1(Reading& r) {
  const std::int64_t hidden = r.whole("hidden_size", 1 << 20, 4096),
                     heads = r.whole("num_attention_heads", 1 << 16, 32);
  const json inner = r.value("mamba_d_ssm", 1024), width = r.value("head_dim");
  set_state_sizes(r, inner.is_number_integer() ? inner.get<std::int64_t>()
                                               : static_cast<std::int64_t>(r.number("mamba_expand", 2)) * hidden);
  const double in = r.number("attention_in_multiplier", 1), out = r.number("attention_out_multiplier", 1),
               key = r.number("key_multiplier", 1), ssm_in = r.number("ssm_in_multiplier", 1);
  const double columns = width.is_number() ? width.get<double>() : static_cast<double>(hidden / heads);
  if (in != 1 || key != 1) r.set("model.attention_scale", key * in * in / std::sqrt(columns));
  json factors = json::object(), inputs = r.value("ssm_multipliers", json::array({1, 1, 1, 1, 1})),
       mlp = r.value("mlp_multipliers", json::array({1, 1}));
  const auto set = [&](const char* key_of_ours, double factor) {
    if (factor != 1) factors[key_of_ours] = factor;
  };
  set("attention", in * out);
  set("state", r.number("ssm_out_multiplier", 1));
  if (mlp.is_array() && mlp.size() == 2 && mlp[0].is_number() && mlp[1].is_number()) {
    set("gates", mlp[0].get<double>());
    set("feed_forward", mlp[1].get<double>());
  }
  bool any = false;
  if (inputs.is_array())
    for (json& each : inputs)
      if (each.is_number()) each = each.get<double>() * ssm_in, any = any || each != 1;
  if (any) factors["state_inputs"] = inputs;
  if (!factors.empty()) r.set("model.multipliers", factors);
  const bool norm = r.flag("mamba_rms_norm"), before = r.value("mamba_norm_before_gate", true) == true;
  r.set("model.state_norm", !norm ? "none" : before ? "before_gate" : "gated");
}
void write_falcon_h1(Writing& w) {
  if (w.at("model.mixer") != "mamba2") return w.cannot("model.mixer", "it is mamba2 there");
  put_state_sizes(w);
  w.put("mamba_d_ssm", w.number("model.state_heads") * w.number("model.state_head_dim"));
  const double root = std::sqrt(w.number("model.head_dim")), scale = w.number("model.attention_scale");
  if (scale > 0) w.put("key_multiplier", exactly_from(scale * root, scale, [=](double key) { return key / root; }));
  const json factors = w.at("model.multipliers");
  const auto factor = [&](const char* key) { return factors.is_object() ? factors.value(key, json(1)) : json(1); };
  w.put("attention_out_multiplier", factor("attention"));
  w.put("ssm_out_multiplier", factor("state"));
  w.put("mlp_multipliers", json::array({factor("gates"), factor("feed_forward")}));
  if (factors.is_object() && factors.contains("state_inputs")) w.put("ssm_multipliers", factors.at("state_inputs"));
  const json norm = w.at("model.state_norm");
  w.put("mamba_rms_norm", norm != "none");
  w.put("mamba_norm_before_gate", norm == "before_gate");
}

// MiniMax-01: a layer's residual is the normed input, so a norm behind a sum is the next branch's, as in models with their norms last. What a
// norm's input is multiplied by its epsilon alone sees: with alpha x + beta f(x) it is that of x + beta / alpha f(x) with epsilon / alpha^2.
struct Factors {
  const char *alpha, *beta;
};
constexpr std::array<Factors, 3> kFactorsOfMiniMax = {{{"full_attn_alpha_factor", "full_attn_beta_factor"},
                                                       {"linear_attn_alpha_factor", "linear_attn_beta_factor"},
                                                       {"mlp_alpha_factor", "mlp_beta_factor"}}};
void read_minimax(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32);
  set_mixers(r, "lightning", layers_of_kind(r, layers, "full_attention", [](std::int64_t i) { return i % 2 == 0; }),
             layers);
  const double alpha = r.number(kFactorsOfMiniMax[2].alpha, 1), beta = r.number(kFactorsOfMiniMax[2].beta, 1);
  for (const Factors& each : kFactorsOfMiniMax)
    for (const auto& [key, same] : {std::pair(each.alpha, alpha), {each.beta, beta}})
      if (r.number(key, 1) != same) r.lack(key, "factors of residuals that differ by branch", 1);
  const double eps = r.number("rms_norm_eps", 1e-5);
  r.set("model.norm_eps", as_number(eps / (alpha * alpha)));
  if (alpha != 1) r.set("model.embedding_scale", 1 / alpha);
  if (alpha != beta) r.set("model.residual_scale", beta / alpha);
}
void write_minimax(Writing& w) {
  put_layer_types(w, "linear_attention");
  const double scale = w.number("model.embedding_scale"), eps = w.number("model.norm_eps"),
               residual = w.number("model.residual_scale");
  const double alpha = exactly_from(1 / scale, scale, [](double a) { return 1 / a; });
  const double beta = exactly_from(residual * alpha, residual, [=](double b) { return b / alpha; });
  const double theirs = exactly_from(eps * alpha * alpha, eps, [=](double e) { return e / (alpha * alpha); });
  for (const Factors& each : kFactorsOfMiniMax) {
    w.put(each.alpha, as_number(alpha));
    w.put(each.beta, as_number(beta));
  }
  w.put("rms_norm_eps", theirs);
}

// OLMo Hybrid: layers of Gated DeltaNet have their norms first, those of attention on their outputs.
void read_olmo_hybrid(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32), hidden = r.whole("hidden_size", 1 << 20, 3840),
                     heads = r.whole("num_attention_heads", 1 << 16, 30);
  set_mixers(r, "gated_delta",
             layers_of_kind(r, layers, "full_attention",
                            [&](std::int64_t i) { return i % 4 == 3 || (layers < 4 && i + 1 == layers); }),
             layers, {{"norm_place", "output"}});
  const std::int64_t keys = r.whole("linear_num_key_heads", 1 << 16, heads);
  const std::int64_t width = r.whole("linear_key_head_dim", 1 << 16, 3 * hidden / 4 / keys);
  r.set("model.state_groups", keys);
  r.set("model.state_heads", r.whole("linear_num_value_heads", 1 << 16, heads));
  r.set("model.state_dim", width);
  r.set("model.state_head_dim", r.whole("linear_value_head_dim", 1 << 16, 2 * width));
  if (const json rope = r.value("rope_parameters"); rope.is_object() && member(rope, "rope_theta").is_null())
    r.set("model.position", "none");
}
void write_olmo_hybrid(Writing& w) {
  if (w.at("model.mixer") != "gated_delta") return w.cannot("model.mixer", "it is gated_delta there");
  put_layer_types(w, "linear_attention");
  for (const auto& [key, field] : {std::pair{"linear_num_key_heads", "model.state_groups"},
                                   {"linear_num_value_heads", "model.state_heads"},
                                   {"linear_key_head_dim", "model.state_dim"},
                                   {"linear_value_head_dim", "model.state_head_dim"}})
    w.put(key, w.at(field));
  if (w.at("model.position") == "none") w.put("rope_parameters", {{"rope_type", "default"}, {"rope_theta", nullptr}});
  if (w.number("model.state_chunk") != 64) w.cannot("model.state_chunk", "it is 64 there");
}

}  // namespace

const std::vector<Rule>& mixer_rules() {
  static const std::vector<Rule> rules = {{"ffn_of_lfm2", read_ffn_of_lfm2, write_ffn_of_lfm2},
                                          {"lfm2", read_lfm2, write_lfm2},
                                          {"bamba", read_bamba, write_bamba},
                                          {"falcon_h1", read_falcon_h1, write_falcon_h1},
                                          {"minimax", read_minimax, write_minimax},
                                          {"olmo_hybrid", read_olmo_hybrid, write_olmo_hybrid}};
  return rules;
}

}  // namespace mbench::formats
