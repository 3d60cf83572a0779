// Configurations of models whose classes stand in their own repositories.
#include <algorithm>
#include <array>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"

namespace mbench::formats {
namespace {

// Baichuan: the small model turns, the large one, which names no longest sequence of positions, has ALiBi.
void read_baichuan(Reading& r) {
  if (r.find("max_position_embeddings")) return;
  r.set("model.position", "alibi");
  r.set("model.positions", r.value("model_max_length", 4096));
}

// GLM-4 and ChatGLM: heads of keys where there are fewer, and a base that is a ratio.
void read_chatglm(Reading& r) {
  if (r.flag("multi_query_attention")) r.set("model.kv_heads", r.value("multi_query_group_num", 1));
  r.set("model.rope.base", as_number(10000 * r.number("rope_ratio", 1)));
}

// LLaDA: a width by itself or as a ratio, and the rows of its table.
void read_llada(Reading& r) {
  const json width = r.value("mlp_hidden_size"), ratio = r.value("mlp_ratio", 4), rows = r.value("embedding_size");
  const auto hidden = r.get("model.hidden");
  if (width.is_number())
    r.set("model.ffn", width);
  else if (ratio.is_number() && hidden && hidden->is_number())
    r.set("model.ffn", as_number(ratio.get<double>() * hidden->get<double>()));
  if (rows.is_number()) r.set("model.vocab", rows);
  if (const json heads = r.value("n_kv_heads"); heads.is_number())
    r.set("model.kv_heads", heads);
  else if (r.flag("multi_query_attention"))
    r.set("model.kv_heads", 1);
}

void write_llada(Writing& w) {
  w.put("mlp_hidden_size", w.at("model.ffn"));
  w.put("n_kv_heads", w.at("model.kv_heads"));
}

// Hunyuan says some sizes once for each layer. A value that all of them share, or the number itself.
json of_all_layers(Reading& r, const char* key, const json& absent) {
  const json value = r.value(key, absent);
  if (!value.is_array()) return value.is_null() ? absent : value;
  if (value.empty()) return absent;
  if (std::any_of(value.begin(), value.end(), [&](const json& each) { return each != value.front(); }))
    r.lack(key, "experts that differ by layer", absent);
  return value.front();
}
void read_hunyuan(Reading& r) {
  const json width = r.value("intermediate_size", 11008);
  r.set("model.ffn", width);
  r.set("model.expert_ffn", of_all_layers(r, "moe_intermediate_size", width));
  r.set("model.active_experts", of_all_layers(r, "moe_topk", 1));
  r.set("model.shared_experts", r.flag("use_mixed_mlp_moe") ? of_all_layers(r, "num_shared_expert", 1) : json(0));
}

void write_hunyuan(Writing& w) {
  w.put("intermediate_size", w.at("model.ffn"));
  w.put("moe_intermediate_size", w.at("model.expert_ffn"));
  w.put("moe_topk", w.at("model.active_experts"));
  w.put("use_mixed_mlp_moe", w.number("model.shared_experts") > 0);
  w.put("num_shared_expert", w.at("model.shared_experts"));
}
void write_chatglm(Writing& w) {
  if (w.at("model.kv_heads") != w.at("model.heads")) {
    w.put("multi_query_attention", true);
    w.put("multi_query_group_num", w.at("model.kv_heads"));
  }
  w.put("rope_ratio", as_number(w.number("model.rope.base") / 10000));
}
void write_baichuan(Writing& w) {
  if (w.at("model.position") == "alibi") w.put("model_max_length", w.at("model.positions"));
}

}  // namespace

const std::vector<Rule>& repository_rules() {
  static const std::vector<Rule> rules = {{"baichuan", read_baichuan, write_baichuan},
                                          {"chatglm", read_chatglm, write_chatglm},
                                          {"llada", read_llada, write_llada},
                                          {"hunyuan", read_hunyuan, write_hunyuan}};
  return rules;
}

}  // namespace mbench::formats
