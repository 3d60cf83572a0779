#include "test/mpi/drawn_fields.h"

namespace mbench::test {
namespace {

using nlohmann::json;

std::int64_t number(const json& drawn, const char* key) {
  return drawn.value(key, std::int64_t{1});
}
std::string text(const json& drawn, const char* key, const char* otherwise) {
  return drawn.value(key, otherwise);
}
bool on(const json& drawn, const char* key) {
  return drawn.value(key, false);
}

bool always(const json&) {
  return true;
}
bool may_pack(const json& d) {
  const json& model = d.at("model");
  const std::string mixer = model.value("mixer", "attention");
  return model.at("family") != "bert" && !model.contains("labels") && !model.contains("state_heads") &&
         mixer != "short_conv" && mixer != "lightning";
}
bool packs(const json& d) {
  return d.contains("document_lengths") && d.at("document_lengths") != "none";
}
bool processes(const json& d) {
  return text(d, "replicas", "ranks") == "ranks";
}
bool one_piece(const json& d) {
  return number(d, "tp") * number(d, "pp") * number(d, "cp") == 1;
}
bool tensor(const json& d) {
  return number(d, "tp") > 1;
}
bool pipeline(const json& d) {
  return number(d, "pp") > 1;
}
bool context(const json& d) {
  return number(d, "cp") > 1;
}
bool sequence(const json& d) {
  return on(d, "sequence_parallel");
}
bool whole_table(const json& d) {
  const json& model = d.at("model");
  const std::string family = model.at("family");
  const bool ties = !model.contains("labels") && model.value("tied_embedding", family == "gpt" || family == "bert");
  return tensor(d) && !model.contains("mtp_layers") && !ties;
}
bool experts(const json& d) {
  return d.at("model").contains("experts");
}
bool experts_apart(const json& d) {
  return number(d, "ep") > 1 && d.value("router", "balanced").find("capacity") == std::string::npos;
}
bool may_have_room(const json& d) {
  return experts_apart(d) && text(d, "ep_communication", "all_to_all") == "flex";
}
bool has_room(const json& d) {
  return d.value("expert_rank_capacity", 0.0) > 0;
}
bool has_pages(const json& d) {
  return d.value("paged_stash", 0.0) > 0;
}
bool experts_cut(const json& d) {
  return experts(d) && sequence(d);
}
bool fp8(const json& d) {
  return d.at("precision") == "fp8";
}
bool fp8_alone(const json& d) {
  const std::string recipe = text(d, "fp8_recipe", "tensorwise");
  return fp8(d) && processes(d) && recipe != "rowwise";
}
bool quantised(const json& d) {
  return fp8(d) || d.at("precision") == "nvfp4";
}
bool quantised_to_the_end(const json& d) {
  return quantised(d) && !d.at("model").contains("mtp_layers");
}
bool fp16(const json& d) {
  return d.at("precision") == "fp16";
}
bool bf16(const json& d) {
  return d.at("precision") == "bf16";
}
bool brain(const json& d) {
  return bf16(d) || quantised(d);
}
bool adam(const json& d) {
  return text(d, "optimizer", "adamw") == "adamw";
}
// Moments in 8 bits are off by up to 5 %: an update is then, and a learning rate of 1e-3 makes a step of that which 16 bits can tell. So it
// is with Adafactor's of few samples in 16 bits: the third step's norm was 2, 4 and 5 % from the serial one's with cp 2, 4 and 8, in f32 3e-6.
bool whole_moments(const json& d) {
  const std::string optimizer = text(d, "optimizer", "adamw");
  return optimizer != "adamw8bit" && (optimizer != "adafactor" || d.at("precision") == "f32");
}
bool adam_of_16_bits(const json& d) {
  return adam(d) && d.at("precision") != "f32";
}
bool adam_of_bf16(const json& d) {
  return adam(d) && bf16(d);
}
std::string zero(const json& d) {
  if (!d.contains("zero")) return "0";
  return d["zero"].is_string() ? d["zero"].get<std::string>() : std::to_string(d["zero"].get<int>());
}
bool fsdp(const json& d) {
  return zero(d) == "fsdp";
}
bool sharded(const json& d) {
  return zero(d) != "0" && number(d, "dp") > 1;
}
bool reduces_at_end(const json& d) {
  return zero(d) == "0" || zero(d) == "1" || zero(d) == "oss";
}
bool may_reduce_at_end(const json& d) {
  return processes(d) && reduces_at_end(d);
}
bool fetches_once(const json& d) {
  return zero(d) == "1" || zero(d) == "2" || zero(d) == "oss" || zero(d) == "oss+sdp";
}
bool may_offload(const json& d) {
  return adam(d) && processes(d) && !on(d, "fp8_parameters") && !on(d, "main_weights_in_bf16");
}
bool may_offload_a_part(const json& d) {
  const std::string offload = text(d, "offload", "none");
  return offload == "moments" || offload == "optimizer";
}
bool whole_weights(const json& d) {
  return text(d, "offload", "none") == "none";
}
bool megatron(const json& d) {
  return text(d, "graph", "fused") == "megatron_core";
}
bool megatron_mixture(const json& d) {
  return megatron(d) && d.at("model").contains("shared_experts");
}
bool may_capture(const json& d) {
  return adam(d) && processes(d) && whole_weights(d) && text(d, "router", "balanced") != "learned";
}
bool captures_step(const json& d) {
  return d.contains("capture") && d.at("capture") == true;
}
bool recomputes(const json& d) {
  return text(d, "recompute", "none") != "none";
}
bool interleaved(const json& d) {
  return text(d, "schedule", "1f1b") == "interleaved";
}
bool in_chunks(const json& d) {
  const std::string schedule = text(d, "schedule", "1f1b");
  return interleaved(d) || schedule == "zbv" || schedule == "v-half" || schedule == "v-min" || schedule == "dualpipev";
}
bool may_overlap_experts(const json& d) {
  const std::string schedule = text(d, "schedule", "1f1b");
  return experts_apart(d) && text(d, "ep_communication", "all_to_all") != "all_gather" && !captures_step(d) &&
         !on(d, "framework.shared_expert_overlap") &&
         (schedule == "1f1b" || schedule == "interleaved" || schedule == "dualpipev");
}
bool overlaps_experts(const json& d) {
  return on(d, "overlap_moe");
}
bool may_defer(const json& d) {
  return pipeline(d) && reduces_at_end(d) && whole_weights(d) && d.value("gradient_accumulation_fusion", true) &&
         !d.at("model").contains("mtp_layers") && !d.at("model").contains("labels");
}
bool may_offload_activations(const json& d) {
  return processes(d) && !d.contains("capture") && !overlaps_experts(d);
}
bool offloads_activations(const json& d) {
  return text(d, "offload_activations", "none") != "none";
}
bool defers(const json& d) {
  return on(d, "defer_embedding_wgrad");
}

}  // namespace

const std::vector<DrawnField>& drawn_fields() {
  static const json no = {false, false, true}, mostly = {true, true, false};
  static const std::vector<DrawnField> all = {
      {"seq", {32, 32, 32, 16, 48, 64}, always},
      {"micro_batch", {1, 1, 1, 2, 3}, always},
      {"seed", {1234, 7}, always},
      {"dropout", {0, 0, 0.1, 0.3}, always},
      {"data", {"synthetic", "synthetic", "text:" MBENCH_SOURCE_DIR "/LICENSE"}, always},
      {"document_lengths", {"none", "none", "none", "12", "5+11", "geometric:6"}, may_pack},
      {"reset_positions", {true, true, false}, packs},
      {"loader_workers", {0, 0, 1, 3}, always},
      {"pinned", no, always},
      {"replicas", {"ranks", "ranks", "single_process"}, one_piece},
      {"sequence_parallel", {true, true, false}, tensor},
      {"vocab_parallel", {true, false}, whole_table},
      {"tp_gathers", {"block", "block", "block", "product"}, sequence},
      {"tp_comm_overlap", no, sequence},
      {"attention", {"core", "flash", "flash"}, always},
      {"cp_communication", {"ring", "ring", "all_gather", "all_to_all"}, context},
      {"router", {"balanced", "balanced_local", "learned", "capacity:1", "capacity:1.5"}, experts},
      {"ep", {1, 2, 2, 4}, experts},
      {"etp", {0, 1, 2}, experts_cut},
      {"ep_communication", {"all_to_all", "all_to_all", "all_gather", "flex", "flex"}, experts_apart},
      {"precision", {"f32", "f32", "bf16", "bf16", "fp16", "fp8", "fp8", "fp8", "nvfp4"}, always},
      {"fp8_recipe", {"tensorwise", "delayed", "rowwise", "blockwise", "mxfp8"}, fp8},
      {"first_layers_in_bf16", {0, 0, 0, 1}, quantised},
      {"last_layers_in_bf16", {0, 0, 0, 1}, quantised_to_the_end},
      {"fp8_parameters", no, fp8_alone},
      {"gradients_in_f32", {false, true}, fp16},
      {"gradients_in_bf16", no, brain},
      {"optimizer", {"adamw", "adamw", "adamw", "adamw", "adamw8bit", "adafactor", "sgd", "muon"}, always},
      {"moments_in_bf16", no, adam_of_16_bits},
      {"main_weights_in_bf16", no, adam_of_bf16},
      {"fused_optimizer", mostly, always},
      {"learning_rate", {1.5e-4, 1.5e-4, 1e-3}, whole_moments},
      {"adapter",
       {"none", "none", "none", "none", "none", "none", "lora:4", "lora:3,alpha=8", "lora:2,targets=qkv+proj",
        "lora:5,alpha=2,targets=fc2", "lora:4,base=nf4", "lora:3,targets=proj+fc1,base=nf4-double"},
       always},
      {"lr_warmup", {0, 0, 2}, always},
      {"weight_decay", {0.01, 0.1, 0}, always},
      {"clip_grad", {1, 1, 0.1, 0}, always},
      {"zero", {0, 0, 1, 2, 3, "oss", "oss+sdp", "fsdp", "fsdp"}, processes},
      {"fsdp_no_sync", {false, true}, fsdp},
      {"optimizer_instances", {1, 1, 2, 4}, sharded},
      {"overlap_grad_reduce", mostly, may_reduce_at_end},
      {"overlap_param_gather", mostly, fetches_once},
      {"offload",
       {"none", "none", "none", "moments", "optimizer", "all", "optimizer+gradients", "all+gradients"},
       may_offload},
      {"graph", {"fused", "fused", "eager", "megatron_core", "megatron_core", "megatron_core"}, always},
      {"cross_entropy_fusion", {"te", "te", "none", "native", "torch", "torch_16bit"}, always},
      {"gradient_accumulation_fusion", mostly, megatron},
      {"grouped_experts", mostly, megatron},
      {"framework.shared_expert_overlap", {false, true}, megatron_mixture},
      {"mask_in_batch", mostly, megatron},
      {"transformer_engine", mostly, megatron},
      {"vocab_multiple", {0, 0, 0, 1, 3, 16}, always},
      {"capture",
       {false, false, true, "attention", "attention+mlp", "layer", "attention+moe_router+moe_preprocess",
        "attention+moe"},
       may_capture},
      {"recompute",
       {"none", "none", "none", "selective", "full", "norm", "mlp", "core_attention+norm", "moe", "moe+norm", "moe_act",
        "moe_act+norm", "mla_up_proj", "core_attention+mla_up_proj+norm", "alternate_products"},
       always},
      {"recompute_layers", {0, 0, 1, 2}, recomputes},
      {"schedule",
       {"1f1b", "1f1b", "gpipe", "interleaved", "interleaved", "zb-h1", "zbv", "v-half", "v-min", "dualpipev"},
       pipeline},
      {"virtual_stages", {2, 2, 2, 4}, in_chunks},
      {"micro_batch_group", {0, 0, 3, 5, 5, 5}, interleaved},
      {"expert_rank_capacity", {0, 1.25, 1.25, 4, 4}, may_have_room},
      {"paged_stash", {0, 0.5, 4, 16, 16}, has_room},
      {"paged_stash_host", {0, 16, 16}, has_pages},
      {"overlap_moe", {false, true, true}, may_overlap_experts},
      {"delay_wgrad", {false, true}, overlaps_experts},
      {"first_stage_layers", {0, 0, 0, 1, 2, 3, 4}, pipeline},
      {"last_stage_layers", {0, 0, 0, 1, 2, 3}, pipeline},
      {"defer_embedding_wgrad", {false, true}, may_defer},
      {"wgrad_deferral_limit", {0, 0, 1, 2}, defers},
      {"offload_activations",
       {"none", "none", "layers:1", "layers:2", "core_attn+attn_proj", "attn_norm+mlp_norm", "qkv_linear", "core_attn",
        "expert_fc1+moe_act", "attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm+expert_fc1+moe_act"},
       may_offload_activations},
      {"min_offloaded_tensor_size", {0, 0, 700}, offloads_activations},
      {"offload_fraction", {1, 0.3, 0.7}, may_offload_a_part},
  };
  return all;
}

const std::vector<std::string>& drawn_first() {
  static const std::vector<std::string> all = {"model", "tp", "pp", "dp", "cp", "global_batch", "pipeline_layout"};
  return all;
}

const std::vector<FixedField>& fixed_fields() {
  static const std::vector<FixedField> all = {
      {"iterations",
       "three steps: the second finds what the first has made, the third finds memory as the second does"},
      {"warmup", "steps that are not measured train as all do"},
      {"strategy", "names a value of zero and of recompute, which are drawn"},
      {"rope_fusion", "a real device has one kernel for it"},
      {"index_map_fusion", "a real device has one kernel for it"},
      {"permute_fusion", "a real device has its own kernels for it"},
      {"routing_imbalance", "of a simulation: how full its fullest rank is, which on others is counted"},
      {"keep_fp8_weight_transpose_cache", "layouts.json has it"},
      {"swiglu_fusion", "layouts.json has it"},
      {"deterministic", "a real device refuses it"},
      {"deterministic_attention", "decides the order of sums on GPUs alone"},
      {"attention_kernels", "of a simulation: changes times alone"},
      {"fsdp", "of torch-eager, which layouts of the table run as"},
      {"fused_adamw", "of torch-eager's simulated host"},
      {"rotary", "of torch-eager's simulated host"},
      {"modules", "of torch-ddp, fairscale and deepspeed, which layouts of the table run as"},
      {"reduce_bucket_size", "of deepspeed, which layouts of the table run as"},
      {"overlap_comm", "of deepspeed, which layouts of the table run as"},
      {"logits", "of torch-ddp, fairscale and deepspeed, which layouts of the table run as"},
      {"liger_kernel", "of torch-eager, torch-ddp and deepspeed, which layouts of the table run as"},
      {"fsdp_ends", "of torchtitan and torch-eager, which layouts of the table run as"},
      {"compiled", "of torchtitan, which layouts of the table run as"},
      {"trainer", "of torch-eager, torch-ddp and deepspeed: changes times alone"},
      {"mixed_precision", "of torch-ddp and fairscale, which layouts of the table run as"},
      {"gradient_as_bucket_view", "of torch-ddp and fairscale, which layouts of the table run as"},
      {"machine", "of a simulation: changes times alone"},
      {"device", "the CPU, and the simulated machine that it is held against"},
      {"memory_limit", "changes nothing where there is room"},
      {"max_seconds", "ends a training and changes none"},
      {"env", "is for the launcher"},
      {"ranks_per_node", "is for the launcher"},
      {"placement", "of a simulation: changes times alone"},
      {"background_load", "of a simulation: changes times alone"},
  };
  return all;
}

const std::vector<FixedField>& fixed_choices() {
  static const std::vector<FixedField> all = {
      {"precision tf32", "GPUs and simulated machines alone have it"},
      {"precision mxfp8", "is fp8 with that fp8_recipe, which is drawn"},
      {"cross_entropy_fusion compiled", "of torchtitan, which layouts of the table run as"},
      {"cross_entropy_fusion liger", "of torch-eager, torch-ddp and deepspeed, which layouts of the table run as"},
      {"data tokens:FILE", "words as of text:FILE, read by test_data"}};
  return all;
}

const std::vector<FixedField>& fixed_model_keys() {
  static const std::vector<FixedField> all = {
      {"name", "a label"},
      {"layers", "drawn by the stages that there are"},
      {"positions", "bounds seq, which is drawn"},
  };
  return all;
}

const json& drawn_models() {
  // Sizes whose parts on 2 and on 4 ranks are multiples of 16 can be had in FP8.
  static const json all = json::parse(R"([
    {"family": "gpt"},
    {"family": "gpt", "heads": 4, "vocab": 131},
    {"family": "gpt", "mtp_layers": 1},
    {"family": "gpt", "tied_embedding": false, "heads": 6, "hidden": 96, "ffn": 192},
    {"family": "bert"},
    {"family": "bert", "norm_place": "post"},
    {"family": "bert", "tied_embedding": false, "vocab": 190},
    {"family": "bert", "labels": 3},
    {"family": "bert", "norm_place": "post", "labels": 2},
    {"family": "gpt", "labels": 5},
    {"family": "llama", "kv_heads": 4, "labels": 7},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 4, "labels": 2},
    {"family": "llama", "kv_heads": 2},
    {"family": "llama", "kv_heads": 4, "heads": 4},
    {"family": "llama", "kv_heads": 1, "heads": 4, "head_dim": 32},
    {"family": "llama", "kv_heads": 4, "qk_norm": true},
    {"family": "llama", "kv_heads": 4, "mtp_layers": 2, "mtp_use_repeated_layer": true},
    {"family": "gpt", "heads": 4, "activation": "gelu_erf", "mtp_layers": 1, "mtp_loss_scaling_factor": 0.5},
    {"family": "llama", "kv_heads": 2, "rope": {"base": 10000, "fraction": 0.5}},
    {"family": "llama", "kv_heads": 8, "rope": {"base": 500, "scaling": {"factor": 8, "low_frequency_factor": 1, "high_frequency_factor": 4,
     "original_positions": 16}}},
    {"family": "llama", "kv_heads": 4, "rope": {"base": 500, "scaling": {"type": "longrope", "factor": 4, "original_positions": 10,
     "short_factors": [1, 1.1, 1.2, 1.4], "long_factors": [1.5, 2, 3, 6]}}},
    {"family": "mixtral", "ffn": 64, "experts": 8, "active_experts": 2, "kv_heads": 4, "routing": {"score": "sigmoid", "normalise": false,
     "scale": 1.5, "groups": 4, "chosen_groups": 2, "group_score": "best_two", "correction_speed": 0.01, "weighted": "input"}},
    {"family": "llama", "norm": "layer_norm", "activation": "squared_relu", "bias": true, "tied_embedding": true},
    {"family": "llama", "kv_heads": 2, "bias": ["qkv"], "activation": "geglu_erf", "causal": false},
    {"family": "llama", "kv_heads": 4, "activation": "geglu", "tied_embedding": true, "embedding_scale": 8, "norm_place": "sandwich",
     "attention_scale": 0.25, "logit_softcap": 1.5},
    {"family": "llama", "kv_heads": 8, "norm_place": "output", "qk_norm": "all_heads"},
    {"family": "gpt", "position": "rotary", "branches": "parallel", "bias": ["dense", "logits"], "tied_embedding": false},
    {"family": "gpt", "position": "rotary", "branches": "parallel_norms", "activation": "silu", "norm_beta": false},
    {"family": "llama", "norm": "layer_norm", "norm_gamma": false, "residual_scale": 0.22, "logit_scale": 0.125, "activation": "reglu"},
    {"family": "gpt", "position": "none", "embedding_norm": true, "activation": "relu"},
    {"family": "llama", "kv_heads": 4, "norm": "layer_norm", "norm_beta": false, "branches": "parallel", "qk_norm": "layer_norm_by_head"},
    {"family": "gpt", "kv_heads": 2, "position": "rotary", "qk_norm": "layer_norm"},
    {"family": "llama", "kv_heads": 4, "window": 9, "layers_of": [{"every": 2, "window": 0, "position": "none"}]},
    {"family": "llama", "kv_heads": 4, "attention_sinks": true, "attention_softcap": 2},
    {"family": "llama", "kv_heads": 4, "qk_norm": "without_weights", "attention_chunk": 10, "layers_of": [{"every": 2, "position": "none",
     "qk_norm": false, "attention_chunk": 0, "attention_temperature": {"scale": 0.3, "floor": 5}}]},
    {"family": "llama", "kv_heads": 2, "attention_temperature": {"scale": 0.2, "floor": 7, "first": 0}, "attention_chunk": 12,
     "layers_of": [{"every": 2, "window": 5, "attention_chunk": 9}]},
    {"family": "llama", "kv_heads": 4, "state_heads": 8, "state_head_dim": 12, "state_groups": 4, "state_dim": 6, "conv_width": 3,
     "state_chunk": 8, "layers_of": [{"every": 2, "mixer": "mamba2"}]},
    {"family": "llama", "kv_heads": 4, "state_heads": 96, "state_head_dim": 1, "state_groups": 8, "state_dim": 6, "dt_rank": 5,
     "conv_width": 3, "state_chunk": 8, "scan_norm": "rms_norm", "scan_norm_eps": 1e-5, "layers_of": [{"every": 2, "mixer": "mamba"}]},
    {"family": "llama", "kv_heads": 4, "qk_norm": true, "mixer": "short_conv", "conv_width": 3, "layers_of": [{"every": 2, "from": 1,
     "mixer": "attention"}]},
    {"family": "llama", "kv_heads": 4, "branches": "parallel_mixers", "mixer": "mamba2", "state_heads": 8, "state_head_dim": 12,
     "state_groups": 4, "state_dim": 6, "state_chunk": 8, "state_norm": "before_gate", "attention_scale": 0.2, "multipliers": {"attention": 0.9,
     "state": 0.24, "feed_forward": 0.5, "gates": 0.88, "state_inputs": [0.35, 0.25, 0.18, 0.5, 0.35]}},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 4, "mixer": "lightning", "state_chunk": 8,
     "norm_place": "post", "embedding_scale": 0.3, "residual_scale": 0.3, "layers_of": [{"every": 2, "from": 1, "mixer": "attention"}]},
    {"family": "llama", "kv_heads": 8, "qk_norm": "all_heads", "mixer": "gated_delta", "state_heads": 8, "state_head_dim": 8,
     "state_groups": 8, "state_dim": 6, "state_chunk": 8, "inner_norm_eps": 1e-5, "negative_eigenvalues": true, "layers_of": [{"every": 2,
     "from": 1, "mixer": "attention", "norm_place": "output"}]},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 8, "moe_latent": 24, "mixer": "gated_delta",
     "attention_gate": true, "state_heads": 8, "state_head_dim": 8, "state_groups": 8, "state_dim": 6, "layers_of": [{"every": 2,
     "mixer": "attention"}]},
    {"family": "llama", "kv_heads": 4, "activation": "xielu", "qk_norm": true},
    {"family": "gpt", "position": "alibi", "bias": false},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 4, "bias": ["qkv"], "shared_experts": 1,
     "shared_expert_ffn": 96, "shared_gate": true, "layers_of": [{"every": 2, "experts": 0}]},
    {"family": "mixtral", "ffn": 64, "experts": 8, "active_experts": 2},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 4, "activation": "clamped_swiglu",
     "bias": ["qkv", "proj", "experts", "router"], "attention_sinks": true, "window": 9},
    {"family": "gpt", "ffn": 64, "experts": 4, "active_experts": 1, "shared_experts": 1},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 1, "shared_experts": 1, "kv_heads": 4},
    {"family": "mixtral", "ffn": 128, "expert_ffn": 64, "experts": 4, "active_experts": 2, "dense_layers": 1, "kv_heads": 8,
     "routing": {"balance_loss": 0.01, "z_loss": 0.001}},
    {"family": "deepseek", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "q_lora_rank": 24,
     "attention_scale": 0.5},
    {"family": "deepseek", "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16, "heads": 4,
     "kv_heads": 4},
    {"family": "deepseek", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "ffn": 96,
     "expert_ffn": 32, "experts": 8, "active_experts": 2, "shared_experts": 1, "dense_layers": 1, "mtp_layers": 1},
    {"family": "mixtral", "ffn": 64, "experts": 4, "active_experts": 2, "kv_heads": 4, "mtp_layers": 2, "mtp_use_repeated_layer": true}
  ])");
  return all;
}

}  // namespace mbench::test
