#include "formats/deepspeed/deepspeed.h"

#include <fmt/ranges.h>

#include <fstream>

#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/table/flat.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using mbench::test::TemporaryFolder;

namespace {

const ordered_json kModel = {{"model_type", "llama"},           {"num_hidden_layers", 3},   {"hidden_size", 64},
                             {"num_attention_heads", 4},        {"intermediate_size", 112}, {"vocab_size", 320},
                             {"max_position_embeddings", 4096}, {"torch_dtype", "bfloat16"}};
const ordered_json kRun = {
    {"train_micro_batch_size_per_gpu", 2},
    {"gradient_accumulation_steps", 4},
    {"train_batch_size", 64},
    {"bf16", {{"enabled", true}}},
    {"gradient_clipping", 1.0},
    {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 3e-5}, {"betas", {0.9, 0.95}}}}}},
    {"zero_optimization",
     {{"stage", 3}, {"offload_optimizer", {{"device", "cpu"}, {"pin_memory", true}}}, {"overlap_comm", true}}},
    {"steps_per_print", 10}};

Imported merged(const ordered_json& run, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string model = folder / "config.json", file = folder / "ds_config.json";
  std::ofstream(model) << kModel.dump();
  std::ofstream(file) << run.dump();
  return import_files({model, file}, options);
}

}  // namespace

TEST_CASE("DeepSpeed: a config over a model's config") {
  const Imported found = merged(kRun);
  const Point p = point_from_json(json(found.spec), "spec");
  CHECK(p.model.layers == 3);
  CHECK(p.micro_batch == 2);
  CHECK(p.global_batch == 64);
  CHECK(p.dp == 8);
  CHECK(p.zero == Zero::stage_3);
  CHECK(p.offload == Offload::optimizer_and_gradients);
  CHECK(p.precision == Precision::bf16);
  CHECK(p.learning_rate == 3e-5);
  const std::string notes = fmt::format("{}", fmt::join(found.notes, "\n"));
  CHECK_THAT(notes,
             Contains("as without: zero_optimization.offload_optimizer.pin_memory, zero_optimization.overlap_comm"));
  CHECK_THAT(notes, Contains("without meaning for cost") && Contains("steps_per_print"));
}

TEST_CASE("DeepSpeed: buckets and their overlap are the framework's options") {
  ordered_json run = kRun;
  run["zero_optimization"] = {{"stage", 2}, {"overlap_comm", true}, {"reduce_bucket_size", 2e8}};
  const auto framework = [&] { return name_of(point_from_json(json(merged(run).spec), "spec").framework); };
  CHECK(framework() == "deepspeed, overlap_comm true, reduce_bucket_size 200000000");
  run["zero_optimization"]["reduce_bucket_size"] = "auto";
  CHECK(framework() == "deepspeed, overlap_comm true, reduce_bucket_size hidden_squared");
  run["zero_optimization"]["reduce_bucket_size"] = 5e8;
  run["zero_optimization"]["overlap_comm"] = false;
  CHECK(framework() == "deepspeed");
  run["zero_optimization"]["reduce_bucket_size"] = 3e8;
  CHECK_THAT(fmt::format("{}", fmt::join(merged(run).notes, "\n")), Contains("is forecast as 500000000"));
}

TEST_CASE("DeepSpeed: auto leaves what the model's config says") {
  ordered_json run = kRun;
  run["bf16"]["enabled"] = "auto";
  run["fp16"]["enabled"] = "auto";
  run["train_batch_size"] = "auto";
  run["train_micro_batch_size_per_gpu"] = "auto";
  run["gradient_clipping"] = "auto";
  const Imported found = merged(run);
  const Point p = point_from_json(json(found.spec), "spec");
  CHECK(p.precision == Precision::bf16);
  CHECK(p.clip_grad == TrainingSpec().clip_grad);
  CHECK(p.micro_batch == 1);
  CHECK_THAT(fmt::format("{}", fmt::join(found.notes, "\n")),
             Contains("train_micro_batch_size_per_gpu is \"auto\"") && Contains("how many ranks start is not said"));
}

TEST_CASE("DeepSpeed: what mbench has no part for is named; alone it is no model") {
  ordered_json run = kRun;
  run["zero_optimization"]["offload_param"]["device"] = "nvme";
  run["zero_optimization"]["zero_quantized_weights"] = true;
  CHECK_THROWS_WITH(merged(run), Contains("zero_optimization.offload_param.device \"nvme\"") &&
                                     Contains("zero_optimization.zero_quantized_weights true"));
  run = kRun;
  run["train_batch_size"] = 65;
  CHECK_THROWS_WITH(merged(run), Contains("train_batch_size 65 is no multiple"));
  const TemporaryFolder folder;
  std::ofstream(folder / "ds.json") << kRun.dump();
  CHECK_THROWS_WITH(import_files({folder / "ds.json"}),
                    Contains("has no model") && Contains("mbench import config.json"));
}

TEST_CASE("DeepSpeed: a point goes out and comes back, or what no config says is named") {
  const Point point = point_from_json(json(merged(kRun).spec), "spec");
  const ordered_json config = write_deepspeed(point);
  CHECK(config.at("zero_optimization").at("stage") == 3);
  CHECK(config.at("train_micro_batch_size_per_gpu") == 2);
  CHECK(config.at("gradient_accumulation_steps") == 4);
  const Point again = point_from_json(json(merged(config).spec), "spec");
  CHECK(lost_fields(flat_point(point), flat_point(again)) == std::vector<std::string>{});
  Point other = point;
  other.tp = 2;
  CHECK_THROWS_WITH(write_deepspeed(other), Contains("tp 2"));
  other = point;
  other.zero = Zero::fsdp;
  CHECK_THROWS_WITH(write_deepspeed(other), Contains("zero \"fsdp\""));
  other = point;
  other.offload = Offload::optimizer;
  CHECK_THROWS_WITH(write_deepspeed(other), Contains("offload \"optimizer\""));
  other.offload = Offload::moments;
  CHECK_THROWS_WITH(write_deepspeed(other), Contains("offload \"moments\": the f32 weights go with the moments"));
  other.offload = Offload::optimizer, other.zero = Zero::stage_1;
  CHECK(write_deepspeed(other).at("zero_optimization").at("offload_optimizer").at("device") == "cpu");
  other = point;
  other.precision = Precision::fp8;
  CHECK_THROWS_WITH(write_deepspeed(other), Contains("precision.preset \"fp8\""));
}
