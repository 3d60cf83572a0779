// What one key of a Hugging Face config cannot say alone.
#include "formats/table/rules.h"

#include <algorithm>
#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"

namespace mbench::formats {

json member(const json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object.at(key) : json();
}

json as_number(double value) {
  const double whole = std::round(value);
  return std::abs(value - whole) < 1e-9 * std::abs(whole) + 1e-12 && std::abs(whole) < 1e15
             ? json(static_cast<std::int64_t>(whole))
             : json(value);
}

namespace {

// Gemma's embedding is multiplied by the root of hidden; its scores by that of a number of their own.
void read_root_of_hidden(Reading& r) {
  if (const auto hidden = r.get("model.hidden"); hidden && hidden->is_number())
    r.set("model.embedding_scale", std::sqrt(hidden->get<double>()));
}
void read_scale_of_scores(Reading& r) {
  if (const double scalar = r.number("query_pre_attn_scalar", 256); scalar > 0)
    r.set("model.attention_scale", 1 / std::sqrt(scalar));
}
void write_scale_of_scores(Writing& w) {
  const double scale = w.number("model.attention_scale");
  w.put("query_pre_attn_scalar", as_number(scale > 0 ? 1 / (scale * scale) : w.number("model.head_dim")));
}
void read_inverse_logit_scale(Reading& r) {
  if (const double scaling = r.number("logits_scaling", 1); scaling > 0 && scaling != 1)
    r.set("model.logit_scale", 1 / scaling);
}
void write_inverse_logit_scale(Writing& w) {
  if (const json scale = w.at("model.logit_scale"); scale.is_number() && scale != 1)
    w.put("logits_scaling", 1 / scale.get<double>());
}

// Falcon's two generations: one norm and one head of keys, or two norms and so many heads.
void read_falcon(Reading& r) {
  const bool newer = r.flag("new_decoder_architecture"), parallel = r.value("parallel_attn", true) == true,
             one_head = r.value("multi_query", true) == true;
  const json heads = r.value("num_kv_heads"), norms = r.value("num_ln_in_parallel_attn");
  if (newer && norms == 1)
    r.set("model.branches", "parallel");
  else if (newer)
    r.set("model.branches", "parallel_norms");
  else if (parallel && !r.is_without("parallel_attn"))
    r.set("model.branches", "parallel");
  if (newer) {
    if (heads.is_number()) r.set("model.kv_heads", heads);
  } else if (one_head) {
    r.set("model.kv_heads", 1);
  }
}

void write_falcon(Writing& w) {
  const json branches = w.at("model.branches"), kv_heads = w.at("model.kv_heads");
  const bool one = kv_heads == 1, all = kv_heads == w.at("model.heads");
  if (branches == "sequential") w.put("parallel_attn", false);
  if (branches == "parallel_norms" || (branches == "parallel" && !one && !all)) {
    w.put("new_decoder_architecture", true);
    w.put("num_kv_heads", kv_heads);
    if (branches == "parallel") w.put("num_ln_in_parallel_attn", 1);
  } else if (all) {
    w.put("multi_query", false);
  }
}

// OPT's table of positions has two more rows than positions.
constexpr std::int64_t kRowsBefore = 2;
void read_positions_of_opt(Reading& r) {
  r.set("model.positions", r.whole("max_position_embeddings", std::int64_t{1} << 40, 2048) + kRowsBefore);
}
void read_positions_of_biogpt(Reading& r) {
  r.set("model.positions", r.whole("max_position_embeddings", std::int64_t{1} << 40, 1024) + kRowsBefore);
}
void write_positions_of_opt(Writing& w) {
  w.put("max_position_embeddings", static_cast<std::int64_t>(w.number("model.positions")) - kRowsBefore);
}

// Clipped queries, keys and values.
void note_clip(Reading& r, const char* key, const json& clip) {
  if (!clip.is_null())
    r.note(fmt::format("{} {} is left out: it changes values, and nearly no cost", key, short_json(clip)));
}
void read_clip(Reading& r) {
  note_clip(r, "clip_qkv", r.value("clip_qkv"));
}

// What MPT and DBRX keep in objects of their own.
void read_mpt(Reading& r) {
  const json attention = r.value("attn_config"), ratio = r.value("expansion_ratio", 4);
  const auto hidden = r.get("model.hidden");
  if (hidden && hidden->is_number() && ratio.is_number() && ratio != 4)
    r.set("model.ffn", as_number(ratio.get<double>() * hidden->get<double>()));
  if (const json heads = member(attention, "kv_n_heads"); heads.is_number()) r.set("model.kv_heads", heads);
  note_clip(r, "attn_config.clip_qkv", member(attention, "clip_qkv"));
  if (member(attention, "qk_ln") == true) r.lack("attn_config", "layer norms of queries and keys");
  if (member(attention, "alibi") == false) r.set("model.position", "learned");
  if (const json p = member(attention, "attn_pdrop"); p.is_number() && p != 0)
    r.lack("attn_config", "dropout of only attention");
}
void write_mpt(Writing& w) {
  json attention = json::object();
  if (w.at("model.position") == "learned") attention["alibi"] = false;
  if (w.at("model.kv_heads") != w.at("model.heads")) attention["kv_n_heads"] = w.at("model.kv_heads");
  if (!attention.empty()) w.put("attn_config", attention);
  if (const double ratio = w.number("model.ffn") / w.number("model.hidden"); ratio != 4)
    w.put("expansion_ratio", as_number(ratio));
}
void write_dbrx(Writing& w) {
  w.put("attn_config", {{"kv_n_heads", w.at("model.kv_heads")}, {"rope_theta", w.at("model.rope.base")}});
  json experts = {{"ffn_hidden_size", w.at("model.expert_ffn")},
                  {"moe_num_experts", w.at("model.experts")},
                  {"moe_top_k", w.at("model.active_experts")},
                  {"moe_loss_weight", w.at("model.routing.balance_loss")}};
  if (w.at("model.routing.normalise") == false) experts["moe_normalize_expert_weights"] = nullptr;
  w.put("ffn_config", experts);
}
void read_dbrx(Reading& r) {
  const json attention = r.value("attn_config"), experts = r.value("ffn_config");
  const auto set = [&](const char* field, const json& from, const char* key, const json& absent) {
    const json value = member(from, key);
    r.set(field, value.is_null() ? absent : value);
  };
  set("model.kv_heads", attention, "kv_n_heads", 1);
  set("model.rope.base", attention, "rope_theta", 10000);
  set("model.expert_ffn", experts, "ffn_hidden_size", 3584);
  set("model.ffn", experts, "ffn_hidden_size", 3584);
  set("model.experts", experts, "moe_num_experts", 4);
  set("model.active_experts", experts, "moe_top_k", 1);
  set("model.routing.balance_loss", experts, "moe_loss_weight", 0.01);
  if (const json norm = member(experts, "moe_normalize_expert_weights");
      norm.is_null() && experts.is_object() && experts.contains("moe_normalize_expert_weights"))
    r.set("model.routing.normalise", false);
  note_clip(r, "attn_config.clip_qkv", member(attention, "clip_qkv"));
}

// All layers have experts: the width of a block that none has.
void read_ffn_of_experts(Reading& r) {
  if (const auto width = r.get("model.expert_ffn")) r.set("model.ffn", *width);
}

// The shared expert, whose width is a key of its own.
void read_one_shared_expert(Reading& r) {
  r.set("model.shared_experts", 1);
}

// OPT's embedding may be narrower than its layers.
void read_same_width(Reading& r) {
  const json narrow = r.value("word_embed_proj_dim");
  const auto hidden = r.get("model.hidden");
  if (r.is_without("word_embed_proj_dim"))
    r.note("the embedding is as wide as the layers, and so the model has more parameters");
  if (!narrow.is_null() && hidden && narrow != *hidden)
    r.lack("word_embed_proj_dim", "an embedding of another width than the layers");
}

// A null is "straight from hidden", where a missing key is the class's own default. Norms of latents have an epsilon of their own, whatever
// the others have.
void read_latent_ranks(Reading& r) {
  if (r.value("q_lora_rank").is_null()) r.set("model.q_lora_rank", 0);
  constexpr double kEps = 1e-6;
  if (const auto eps = r.get("model.norm_eps"); eps && *eps != kEps) r.set("model.inner_norm_eps", kEps);
}
void write_latent_ranks(Writing& w) {
  if (w.number("model.q_lora_rank") == 0) w.put("q_lora_rank", nullptr);
  w.put("num_key_value_heads", w.at("model.heads"));
}

// Groups of experts. `noaux_tc` balances by a correction of scores (DeepSeek-V3), the others by a loss (V2).
void read_groups_as(Reading& r, const char* usual_method, const char* usual_score, const json& usual_groups = nullptr,
                    const json& usual_chosen = nullptr) {
  const json method = r.value("topk_method", usual_method), score = r.value("scoring_func", usual_score);
  if (score != "softmax" && score != "sigmoid") r.lack("scoring_func", "another score", usual_score);
  r.set("model.routing.score", score);
  const bool corrected = method == "noaux_tc", grouped = corrected || method == "group_limited_greedy";
  if (!grouped && method != "greedy") r.lack("topk_method", "another choice of experts", usual_method);
  r.set("model.routing.correction_speed", corrected ? 0.001 : 0);
  const json groups = r.value("n_group", usual_groups), chosen = r.value("topk_group", usual_chosen);
  if (!grouped || groups.is_null() || groups == 1) return;
  r.set("model.routing.groups", groups);
  if (!chosen.is_null()) r.set("model.routing.chosen_groups", chosen);
  r.set("model.routing.group_score", corrected ? "best_two" : "best");
}
void write_groups_as(Writing& w, const char* usual_score, const char* plain, const char* grouped) {
  const json groups = w.at("model.routing.groups");
  if (w.at("model.routing.score") != usual_score) w.put("scoring_func", w.at("model.routing.score"));
  w.put("topk_method", groups.is_null() ? plain : grouped);
  w.put("n_group", groups.is_null() ? json(1) : groups);
  w.put("topk_group", groups.is_null() ? json(1) : w.at("model.routing.chosen_groups"));
}
void read_groups(Reading& r) {
  read_groups_as(r, "greedy", "softmax");
}
void write_groups(Writing& w) {
  write_groups_as(w, "softmax", "greedy", "group_limited_greedy");
}
void read_groups_without_loss(Reading& r) {
  read_groups_as(r, "noaux_tc", "sigmoid");
}
void read_groups_of_deepseek_v3(Reading& r) {
  read_groups_as(r, "noaux_tc", "sigmoid", 8, 4);
}
void write_groups_without_loss(Writing& w) {
  write_groups_as(w, "sigmoid", "noaux_tc", "noaux_tc");
}

}  // namespace

const std::vector<Rule>& hugging_face_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all = {{"root_of_hidden", read_root_of_hidden, write_nothing},
                             {"scale_of_scores", read_scale_of_scores, write_scale_of_scores},
                             {"inverse_logit_scale", read_inverse_logit_scale, write_inverse_logit_scale},
                             {"falcon", read_falcon, write_falcon},
                             {"positions_of_opt", read_positions_of_opt, write_positions_of_opt},
                             {"positions_of_biogpt", read_positions_of_biogpt, write_positions_of_opt},
                             {"clip", read_clip, write_nothing},
                             {"mpt", read_mpt, write_mpt},
                             {"dbrx", read_dbrx, write_dbrx},
                             {"ffn_of_experts", read_ffn_of_experts, write_nothing},
                             {"one_shared_expert", read_one_shared_expert, write_nothing},
                             {"same_width", read_same_width, write_nothing},
                             {"latent_ranks", read_latent_ranks, write_latent_ranks},
                             {"groups", read_groups, write_groups},
                             {"groups_without_loss", read_groups_without_loss, write_groups_without_loss},
                             {"groups_of_deepseek_v3", read_groups_of_deepseek_v3, write_groups_without_loss}};
    for (const Rule& rule : rope_rules()) all.push_back(rule);
    for (const Rule& rule : layer_rules()) all.push_back(rule);
    for (const Rule& rule : state_rules()) all.push_back(rule);
    for (const Rule& rule : mixer_rules()) all.push_back(rule);
    for (const Rule& rule : layer_list_rules()) all.push_back(rule);
    for (const Rule& rule : label_rules()) all.push_back(rule);
    for (const Rule& rule : repository_rules()) all.push_back(rule);
    return all;
  }();
  return rules;
}

}  // namespace mbench::formats
