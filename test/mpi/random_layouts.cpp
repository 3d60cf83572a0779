#include "test/mpi/random_layouts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "strategies/strategies.h"

namespace mbench::test {
namespace {

using nlohmann::json;

// What stands more than once is drawn more often.
const json& choices() {
  static const json table = json::parse(R"({
    "sequence_parallel": [false, true],
    "schedule": ["1f1b", "1f1b", "gpipe", "interleaved"],
    "virtual_stages": [1, 2, 2],
    "recompute": ["none", "none", "selective", "full", "norm", "mlp", "core_attention+norm", "moe", "moe+norm", "moe_act", "moe_act+norm",
                  "mla_up_proj", "mla_up_proj+norm+core_attention", "alternate_products"],
    "recompute_layers": [0, 0, 1],
    "micro_batch_group": [0, 0, 0, 0, 3, 5],
    "first_stage_layers": [0, 0, 0, 0, 1, 2, 4],
    "last_stage_layers": [0, 0, 0, 0, 2, 3],
    "zero": [0, 0, 1, 2, 3, "oss", "oss+sdp", "fsdp"],
    "fsdp_no_sync": [false, false, true],
    "optimizer_instances": [1, 1, 2, 4],
    "offload": ["none", "none", "none", "optimizer", "all"],
    "micro_batch": [1, 1, 2],
    "graph": ["fused", "eager"],
    "attention": ["core", "flash"],
    "precision": ["f32", "f32", "f32", "f32", "f32", "bf16"],
    "dropout": [0, 0.1],
    "cp_communication": ["ring", "all_gather", "all_to_all"],
    "ep": [1, 2, 4],
    "etp": [0, 1, 2],
    "ep_communication": ["all_to_all", "all_gather", "flex"],
    "router": ["balanced", "balanced", "learned"]
  })");
  return table;
}

const json& models() {
  static const json table = json::parse(R"([
    {"family": "gpt"},
    {"family": "gpt", "mtp_layers": 1},
    {"family": "bert"},
    {"family": "bert", "norm_place": "post"},
    {"family": "llama", "kv_heads": 2},
    {"family": "llama", "kv_heads": 4, "qk_norm": true, "mtp_layers": 2},
    {"family": "llama", "norm": "layer_norm", "activation": "squared_relu", "bias": true, "tied_embedding": true},
    {"family": "mixtral", "ffn": 48, "experts": 8, "active_experts": 2},
    {"family": "deepseek", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "q_lora_rank": 24},
    {"family": "deepseek", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "ffn": 96,
     "expert_ffn": 24, "experts": 16, "active_experts": 4, "shared_experts": 1, "dense_layers": 1, "mtp_layers": 1}
  ])");
  return table;
}

}  // namespace

std::vector<Layout> random_layouts(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 draw(seed);  // its output is the same everywhere, which std's distributions are not
  const auto one_of = [&](const json& list) -> const json& { return list[draw() % list.size()]; };
  const json base = point_to_json(layout_of("random", "gpt", 1, 1, 1, false).point);
  const json sizes = {1, 1, 1, 2, 2, 4, 8};
  std::set<std::string> ids;
  std::vector<Layout> found;
  while (found.size() < count) {
    json fields = base, text = json::object();
    std::int64_t world = 1;
    for (const char* axis : {"tp", "pp", "dp", "cp"}) world *= (text[axis] = one_of(sizes)).get<std::int64_t>();
    if (world < 2 || world > 8) continue;
    const json& model = one_of(models());
    fields["model"].merge_patch(model);
    for (const auto& [key, values] : choices().items())
      if (model.contains("experts") || (key != "ep" && key != "etp" && key != "ep_communication" && key != "router"))
        text[key] = one_of(values);
    fields.merge_patch(text);
    const Point point = point_from_json(fields, "random layout: $");
    if (!strategies::can_be(point) || !ids.insert(point_id(point)).second) continue;
    text["model"] = model;
    found.push_back({"drawn " + text.dump(), point});
  }
  return found;
}

}  // namespace mbench::test
