// What one key of TrainingArguments cannot say alone. Nothing is written: a script of the user's is what runs them.
#include "formats/table/rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/point/adapter.h"
#include "engine/point/model_spec.h"

namespace mbench::formats {
namespace {

bool is_on(const json& value) {
  return value == json(true) ||
         (value.is_string() && value != "false" && value != "disabled" && value != "no" && value != "");
}

// Null for a model that is no preset.
const ModelSpec* preset_named(const std::string& name) {
  try {
    return &find_preset(name, "model");
  } catch (const Error&) {
    return nullptr;
  }
}

// A preset by the model's name; else its config.json comes first.
void read_named_model(Reading& r) {
  const json base = r.value("base_model"), path = r.value("model_name_or_path"), name = base.is_null() ? path : base;
  r.value("base_model_config");
  if (!name.is_string()) return r.note("no model is named: its sizes come from a config.json next to it");
  const ModelSpec* model = preset_named(name.get<std::string>());
  if (!model)
    return r.note(fmt::format("the model {} is none of mbench's presets: its sizes come from a config.json next to it",
                              name.get<std::string>()));
  r.set("model.preset", model->name);
  if (const auto seq = r.get("seq"); seq && seq->is_number() && *seq > model->positions) r.set("model.positions", *seq);
  r.set("dropout", 0);
}

// What runs the step under transformers' Trainer. Layouts that none of its frameworks has are forecast as mbench's own engine.
void read_arguments_framework(Reading& r) {
  const bool liger = r.flag("use_liger_kernel") || r.flag("enable_liger_kernel");
  for (const char* field : {"tp", "cp"})
    if (const auto ranks = r.get(field); ranks && *ranks != 1)
      return r.note(fmt::format("{} {} is forecast as mbench's own engine, which keeps less and has a faster host",
                                field, ranks->dump()));
  const auto zero = r.get("zero");
  const bool deepspeed = !r.value("deepspeed").is_null(), fsdp = zero && *zero != 0,
             // A frozen base is loaded in 16 bits.
      autocast = !r.get("precision.main_weights") && !r.get("adapter");
  const std::string preset = deepspeed ? "deepspeed" : fsdp || !autocast ? "torch-eager" : "torch-ddp";
  r.set("framework.preset", preset);
  r.set("framework.trainer", "hugging_face");
  if (liger) r.set("framework.liger_kernel", true);
  if (fsdp && r.value("fsdp_version") == 2) r.set("framework.fsdp", "per_parameter");
}

void read_arguments_precision(Reading& r) {
  const json bf16 = r.value("bf16", false), fp16 = r.value("fp16", false), pure = r.value("pure_bf16", false),
             full = r.value("bfloat16", false);
  if (bf16 == "full" || pure == json(true) || full == json(true))
    return r.set("precision",
                 json({{"preset", "bf16"}, {"main_weights", "bf16"}, {"gradients", "bf16"}, {"moments", "bf16"}}));
  r.set("precision.preset", is_on(bf16) || r.is_auto("bf16") ? "bf16" : is_on(fp16) ? "fp16" : "f32");
}

// Modules of transformers' models by the target that holds them.
constexpr std::pair<std::string_view, std::string_view> kModules[] = {{"q_proj", "qkv"},
                                                                      {"k_proj", "qkv"},
                                                                      {"v_proj", "qkv"},
                                                                      {"qkv_proj", "qkv"},
                                                                      {"query_key_value", "qkv"},
                                                                      {"c_attn", "qkv"},
                                                                      {"o_proj", "proj"},
                                                                      {"out_proj", "proj"},
                                                                      {"gate_proj", "fc1"},
                                                                      {"up_proj", "fc1"},
                                                                      {"gate_up_proj", "fc1"},
                                                                      {"dense_h_to_4h", "fc1"},
                                                                      {"c_fc", "fc1"},
                                                                      {"fc1", "fc1"},
                                                                      {"down_proj", "fc2"},
                                                                      {"dense_4h_to_h", "fc2"},
                                                                      {"fc2", "fc2"}};

std::vector<std::string> words_of(const json& value) {
  std::vector<std::string> words;
  for (const json& each : value.is_array() ? value : json::array({value})) {
    if (!each.is_string()) continue;
    std::string text = each.get<std::string>();
    std::replace(text.begin(), text.end(), ',', ' ');
    for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string::npos;) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      words.push_back(text.substr(at, end - at));
      at = end;
    }
  }
  return words;
}

// ",targets=qkv+fc1" of the modules that are adapted; empty for all linear parts of layers.
std::string targets_of(Reading& r, const json& modules, const char* key) {
  const std::vector<std::string> words = words_of(modules);
  if (words.empty() || words.front() == "all" || words.front() == "all-linear") return "";
  std::set<std::string_view> named, whole;
  std::map<std::string_view, int> parts;
  for (const std::string& word : words) {
    const auto known =
        std::find_if(std::begin(kModules), std::end(kModules), [&](const auto& m) { return m.first == word; });
    if (known == std::end(kModules)) {
      r.lack(key, fmt::format("an adapter of {}", word));
      return "";
    }
    named.insert(known->second);
    if (known->first == "q_proj" || known->first == "k_proj" || known->first == "v_proj") ++parts["qkv"];
    if (known->first == "gate_proj" || known->first == "up_proj") ++parts["fc1"];
  }
  if ((parts["qkv"] % 3) != 0 || (parts["fc1"] % 2) != 0)
    r.note(fmt::format("{} is forecast as one adapter of all of qkv or fc1: {}", key, fmt::join(words, ", ")));
  std::string targets;
  for (const char* target : kAdapterTargets)
    if (named.contains(target)) targets += (targets.empty() ? ",targets=" : "+") + std::string(target);
  return named.size() == std::size(kAdapterTargets) ? "" : targets;
}

// LoRA and QLoRA as LLaMA-Factory and axolotl say them; both have NF4 with scales in 8 bits.
void read_arguments_adapter(Reading& r) {
  const json type = r.value("finetuning_type"), adapter = r.value("adapter");
  const bool factory = type == "lora", on = factory || adapter == "lora" || adapter == "qlora";
  if (!type.is_null() && type != "full" && !factory) r.lack("finetuning_type", "layers that are frozen");
  if (!on && is_on(adapter)) r.lack("adapter", "another adapter");
  const json bits = r.value("quantization_bit"), doubled = r.value("double_quantization", true);
  const bool four = bits == 4 || r.flag("load_in_4bit");
  if (!bits.is_null() && bits != 4) r.lack("quantization_bit", "weights that are quantised");
  if (four && !on) r.lack(bits.is_null() ? "load_in_4bit" : "quantization_bit", "weights in 4 bits without an adapter");
  if (!on) return;
  const char* key = factory ? "lora_rank" : "lora_r";
  const std::int64_t rank = r.whole(key, 1 << 20, factory ? json(8) : json());
  std::string text = fmt::format("lora:{}", rank);
  if (const double alpha = r.number("lora_alpha", factory ? 2 * rank : rank); alpha != static_cast<double>(rank))
    text += fmt::format(",alpha={:g}", alpha);
  if (factory)
    text += targets_of(r, r.value("lora_target", "all"), "lora_target");
  else if (!r.flag("lora_target_linear"))
    text += targets_of(r, r.value("lora_target_modules", "all"), "lora_target_modules");
  if (four) text += doubled == json(true) ? ",base=nf4-double" : ",base=nf4";
  r.set("adapter", text);
  if (r.number("lora_dropout", 0) != 0) r.note(fmt::format("forecast as without {}", r.quoted("lora_dropout")));
}

// transformers' default is PyTorch's scaled_dot_product_attention.
void read_arguments_attention(Reading& r) {
  const json kind = r.value("flash_attn", r.value("attn_implementation", "sdpa"));
  for (const char* key : {"flash_attention", "sdp_attention", "flex_attention"}) r.value(key);
  if (r.value("flex_attention") == json(true)) r.note("flex_attention is forecast as flash");
  r.set("attention", kind == "disabled" || kind == "eager" || kind == json(false) ? "core" : "flash");
}

// LLaMA-Factory recomputes unless it is told not to.
void read_arguments_recompute(Reading& r) {
  const bool factory = !r.value("finetuning_type").is_null() || !r.value("stage").is_null(),
             off = r.flag("disable_gradient_checkpointing");
  const json on = r.value("gradient_checkpointing", factory && !off);
  if (on == "offload" || on == "offload_disk") r.lack("gradient_checkpointing", "activations in host memory");
  r.set("recompute", is_on(on) ? "full" : "none");
}

// PyTorch's FSDP: a list of words, a text of them, or axolotl's.
void read_arguments_state(Reading& r) {
  const json fsdp = r.value("fsdp"), version = r.value("fsdp_version"), deepspeed = r.value("deepspeed");
  std::string words;
  for (const json& each : fsdp.is_array() ? fsdp : json::array({fsdp}))
    if (each.is_string()) words += " " + each.get<std::string>();
  const bool sharded = words.find("shard") != std::string::npos || is_on(fsdp) ||
                       (version.is_number() && deepspeed.is_null() && r.find("fsdp_version"));
  if (!sharded) return;
  r.set("zero", words.find("shard_grad_op") != std::string::npos ? json(2) : json("fsdp"));
  // Weights, gradients and optimizer state (FSDP's CPUOffload).
  const bool whole = words.find("shard_grad_op") == std::string::npos;
  if (words.find("offload") != std::string::npos) r.set("offload", whole ? "all+gradients" : "optimizer+gradients");
}

void read_arguments_batch(Reading& r) {
  const std::int64_t one = r.whole("per_device_train_batch_size", 1 << 20),
                     steps = r.whole("gradient_accumulation_steps", 1 << 24, 1);
  const json shards = r.value("dp_shard_size", 1), copies = r.value("dp_replicate_size", 1);
  std::int64_t dp = 1;
  for (const json& each : {shards, copies})
    if (each.is_number_unsigned() && each >= 1 && each <= 1 << 20) dp *= each.get<std::int64_t>();
  if (dp > 1)
    r.set("dp", dp);
  else
    r.note(fmt::format("how many ranks start is not said: dp 1, or --set dp=N --set global_batch={}*N", one * steps));
  r.set("global_batch", one * steps * dp);
}

}  // namespace

const std::vector<Rule>& training_arguments_rules() {
  static const std::vector<Rule> rules = {{"arguments_model", read_named_model, write_nothing},
                                          {"arguments_precision", read_arguments_precision, write_nothing},
                                          {"arguments_adapter", read_arguments_adapter, write_nothing},
                                          {"arguments_attention", read_arguments_attention, write_nothing},
                                          {"arguments_recompute", read_arguments_recompute, write_nothing},
                                          {"arguments_state", read_arguments_state, write_nothing},
                                          {"arguments_framework", read_arguments_framework, write_nothing},
                                          {"arguments_batch", read_arguments_batch, write_nothing}};
  return rules;
}

}  // namespace mbench::formats
