#include "formats/training_arguments/training_arguments.h"

#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "engine/point/point.h"
#include "formats/yaml/yaml.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

Imported import(const std::string& text, const std::vector<std::string>& without = {}) {
  const Yaml yaml = parse_yaml(text, "a.yaml");
  REQUIRE(is_training_arguments(yaml.value));
  return read_training_arguments(yaml.value, yaml.lines, "a.yaml", without);
}

Point point_of(const Imported& imported) {
  return point_from_json(nlohmann::json(imported.spec), "spec");
}

std::string notes_of(const Imported& imported) {
  return fmt::format("{}", fmt::join(imported.notes, "\n"));
}

}  // namespace

TEST_CASE("axolotl's YAML: the preset that it names, its batch, precision, recompute and FSDP") {
  const Imported imported = import(
      "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nmicro_batch_size: 2\ngradient_accumulation_steps: "
      "4\noptimizer: adamw_bnb_8bit\nlearning_rate: 0.0002\nbf16: auto\n"
      "gradient_checkpointing: true\nflash_attention: true\nadapter:\nlora_r:\nsample_packing: true\nfsdp:\n  - "
      "full_shard\n  - auto_wrap\nval_set_size: 0.05\nodd_key: 3\n");
  const Point p = point_of(imported);
  CHECK(p.model.name == "llama-2-7b");
  CHECK(p.seq == 2048);
  CHECK(p.micro_batch == 2);
  CHECK(p.global_batch == 8);
  CHECK(p.optimizer == OptimizerKind::adamw8bit);
  CHECK(p.precision == Precision::bf16);
  CHECK(p.recompute == Recompute::full);
  CHECK(p.attention == AttentionKind::flash);
  CHECK(p.zero == Zero::fsdp);
  CHECK_THAT(notes_of(imported),
             Contains("how many ranks start is not said: dp 1, or --set dp=N --set global_batch=8*N") &&
                 Contains("forecasts are as without: sample_packing") &&
                 Contains("not known to mbench, and not in the spec: odd_key 3 (a.yaml:17)") &&
                 Contains("without meaning for cost: val_set_size"));
}

TEST_CASE("LLaMA-Factory's YAML recomputes by default, and names a DeepSpeed config") {
  const Imported imported = import(
      "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: "
      "full\ndeepspeed: nowhere/ds_z3_config.json\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nlearning_rate: 1.0e-5\nbf16: true\n");
  const Point p = point_of(imported);
  CHECK(p.model.name == "llama-3-8b");
  CHECK(p.recompute == Recompute::full);
  CHECK_THAT(notes_of(imported), Contains("the DeepSpeed config nowhere/ds_z3_config.json is not here"));
  CHECK(point_of(import("model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: "
                        "full\ndisable_gradient_checkpointing: true\nper_device_train_batch_size: 1\n"))
            .recompute == Recompute::none);
  CHECK(name_of(p.framework) == "deepspeed, trainer hugging_face");
  CHECK_THROWS_WITH(import("model_name_or_path: a/b\nfinetuning_type: freeze\nper_device_train_batch_size: 1\n"),
                    Contains("finetuning_type \"freeze\" (a.yaml:2): layers that are frozen") && Contains("--without"));
}

TEST_CASE("LoRA and QLoRA, as LLaMA-Factory and axolotl say them") {
  const std::string model =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 1\nbf16: true\n";
  const auto adapter = [&](const std::string& text) { return str(point_of(import(model + text)).adapter); };
  CHECK(adapter("finetuning_type: lora\n") == "lora:8,alpha=16");
  CHECK(adapter(
            "finetuning_type: lora\nlora_rank: 16\nlora_target: q_proj,k_proj,v_proj,o_proj\nquantization_bit: 4\n") ==
        "lora:16,alpha=32,targets=qkv+proj,base=nf4-double");
  CHECK(adapter("adapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_alpha: 16\nlora_target_linear: true\n") ==
        "lora:32,alpha=16,base=nf4-double");
  CHECK(adapter("adapter: lora\nlora_r: 8\nlora_target_modules: [gate_proj, up_proj, down_proj]\n") ==
        "lora:8,targets=fc1+fc2");
  CHECK(name_of(point_of(import(model + "finetuning_type: lora\n")).framework) == "torch-eager, trainer hugging_face");
  CHECK_THAT(
      notes_of(import(model + "adapter: lora\nlora_r: 8\nlora_dropout: 0.05\nlora_target_modules: [q_proj, v_proj]\n")),
      Contains("forecast as without lora_dropout 0.05") &&
          Contains("lora_target_modules is forecast as one adapter of all of qkv or fc1: q_proj, v_proj"));
  CHECK_THROWS_WITH(import(model + "adapter: lora\nlora_r: 8\nlora_target_modules: [lm_head]\n"),
                    Contains("an adapter of lm_head"));
  CHECK_THROWS_WITH(import(model + "load_in_4bit: true\n"), Contains("weights in 4 bits without an adapter"));
}

TEST_CASE("TrainingArguments: what runs the step") {
  const std::string model =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 1\nbf16: true\n";
  const auto framework = [&](const std::string& text) { return name_of(point_of(import(model + text)).framework); };
  CHECK(framework("") == "torch-ddp, trainer hugging_face");
  CHECK(framework("use_liger_kernel: true\n") == "torch-ddp, liger_kernel true, trainer hugging_face");
  CHECK(framework("fsdp: full_shard\nfsdp_version: 2\n") == "torch-eager, fsdp per_parameter, trainer hugging_face");
  const Imported split = import(model + "tensor_parallel_size: 2\n");
  CHECK(name_of(point_of(split).framework) == "mbench");
  CHECK_THAT(notes_of(split), Contains("tp 2 is forecast as mbench's own engine"));
}

TEST_CASE("TrainingArguments with a DeepSpeed config within: its state is the run's") {
  const Imported imported = import(
      "per_device_train_batch_size: 4\nbf16: true\ndeepspeed: {zero_optimization: {stage: 3, offload_optimizer: "
      "{device: cpu}}, train_micro_batch_size_per_gpu: auto}\nmax_grad_norm: 0.5\n");
  CHECK_FALSE(imported.spec.contains("model"));
  CHECK(imported.spec.at("zero") == 3);
  CHECK(imported.spec.at("offload") == "optimizer+gradients");
  CHECK(imported.spec.at("micro_batch") == 4);
  CHECK(imported.spec.at("clip_grad") == 0.5);
  CHECK_THAT(notes_of(imported), Contains("its sizes come from a config.json next to it"));
}
