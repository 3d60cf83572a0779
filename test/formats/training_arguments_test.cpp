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
  CHECK_THROWS_WITH(import("model_name_or_path: a/b\nfinetuning_type: lora\nper_device_train_batch_size: 1\n"),
                    Contains("finetuning_type \"lora\" (a.yaml:2): LoRA") && Contains("--without"));
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
