#include "formats/megatron/megatron.h"

#include <fmt/ranges.h>

#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/point.h"
#include "formats/megatron/bridge.h"
#include "formats/megatron/config_yaml.h"
#include "formats/yaml/yaml.h"
#include "test/catch.h"
#include "test/formats/megatron_scripts.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using namespace mbench::test;

namespace {

std::string notes_of(const std::string& text, const ImportOptions& options = {}) {
  return fmt::format("{}", fmt::join(read_megatron(text, "a.sh", options).notes, "\n"));
}

}  // namespace

TEST_CASE("Megatron: a list of arguments, with the defaults of Megatron") {
  const Point p = point_of(kArguments);
  CHECK(p.model.layers == 4);
  CHECK(p.model.ffn == 256);
  CHECK(p.model.parts().norm == NormKind::layer_norm);
  CHECK(p.model.parts().position == PositionKind::learned);
  CHECK(p.model.parts().tied_embedding);
  CHECK(p.seq == 128);
  CHECK(p.global_batch == 2);
  CHECK(p.precision == Precision::f32);
  CHECK(name_of(p.framework) == "megatron-core, cross_entropy_fusion none");
  CHECK_FALSE(p.overlap_grad_reduce);
  CHECK(point_of(kArguments + "--swiglu").model.ffn == 128);
}

TEST_CASE("Megatron: a script's variables, arrays, conditions and ranks") {
  const std::string script = R"(#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=${1:-4}
CHECKPOINT=$2
DATA=$(ls /data | head -1)
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES --master_port 6000
)
MODEL=" \
    --num-layers 8 \
    --hidden-size 128 --num-attention-heads 8 \
    --group-query-attention --num-query-groups 2 \
    --seq-length 256 --max-position-embeddings 256 \
    --normalization RMSNorm --swiglu --ffn-hidden-size 320 \
    --position-embedding-type rope --rotary-base 500000 --use-rope-scaling \
    --disable-bias-linear --untie-embeddings-and-output-weights \
"
DTYPE="fp8"
TRAIN=(--micro-batch-size 1 --global-batch-size 16 --bf16 --attention-dropout 0 --hidden-dropout 0 --lr 3e-4 --clip-grad 0.5)
if [[ "$DTYPE" == "fp8" ]]; then
  TRAIN+=("--fp8-format hybrid" --fp8-param-gather)
fi
PARALLEL=(
    --tensor-model-parallel-size $TP   # of a node
    --pipeline-model-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 2
    --sequence-parallel
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL} ${TRAIN[@]} ${PARALLEL[@]} --vocab-size 32000 --save $CHECKPOINT --data-path $DATA --no-such-flag 3 \
  --no-bias-swiglu-fusion --no-bias-dropout-fusion --recompute-granularity selective --cross-entropy-loss-fusion --log-interval 1 2>&1 | tee log
)";
  const Point p = point_of(script);
  CHECK(p.model.layers == 8);
  CHECK(p.model.kv_heads == 2);
  CHECK(p.model.ffn == 320);
  CHECK(p.model.parts().rope.base == 500000);
  CHECK(p.model.parts().rope.factor == 8);
  CHECK(p.tp == 4);
  CHECK(p.pp == 2);
  CHECK(p.dp == 2);
  CHECK(p.virtual_stages == 2);
  CHECK(p.schedule == ScheduleKind::interleaved);
  CHECK(p.sequence_parallel);
  CHECK(p.zero == Zero::stage_1);
  CHECK(p.precision == Precision::fp8);
  CHECK(p.fp8_recipe == Fp8Recipe::delayed);
  CHECK(p.fp8_parameters);
  CHECK(p.recompute == Recompute::selective);
  CHECK(name_of(p.framework) == "megatron-core, cross_entropy_fusion native, swiglu_fusion false");
  CHECK(p.learning_rate == 3e-4);
  CHECK(p.clip_grad == 0.5);
  const std::string notes = notes_of(script);
  CHECK_THAT(notes, Contains("not known to mbench, and not in the spec: --no-such-flag 3 (a.sh:32)"));
  CHECK_THAT(notes, Contains("forecasts are as without: --no-bias-dropout-fusion"));
  CHECK_THAT(notes, Contains("without meaning for cost: ") && Contains("--save") && Contains("--log-interval"));
  CHECK(point_of(script, {.without = {}, .variables = {"NUM_NODES=4"}, .also = {"--micro-batch-size 2"}}).dp == 4);
  CHECK(point_of(script, {.without = {}, .variables = {}, .also = {"--micro-batch-size 2"}}).micro_batch == 2);
}

TEST_CASE("Megatron: a value that is not known is an error by its line, where it matters") {
  const std::string head = "A=1\n\nHIDDEN=$(rm -rf /)\n";
  const auto run = [](const std::string& more) {
    return "python pretrain_gpt.py --num-layers 4 \\\n --num-attention-heads 4 --seq-length 128 "
           "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 \\\n" +
           more;
  };
  const Error command = error_of(head + run("--hidden-size $HIDDEN"));
  CHECK(command.kind() == ErrorKind::bad_input);
  CHECK_THAT(command.what(), Contains("a.sh:") && Contains("--hidden-size") &&
                                 Contains("$(rm -rf /) on line 3 is not run") && Contains("--var"));
  CHECK_THAT(error_of(run("--hidden-size $NOWHERE")).what(), Contains("NOWHERE is not set on line"));
  CHECK_THAT(error_of(run("--hidden-size 64 $MORE_ARGS")).what(), Contains("MORE_ARGS is not set"));
  CHECK(
      point_of(run("--hidden-size $NOWHERE"), {.without = {}, .variables = {"NOWHERE=64"}, .also = {}}).model.hidden ==
      64);
  CHECK(point_of(run("--hidden-size 64 --save $NOWHERE --tensorboard-dir $(mktemp)")).model.hidden == 64);
  CHECK_THAT(error_of("echo hello\n").what(), Contains("no command has Megatron's arguments"));
  CHECK_THAT(error_of(run("--hidden-size 64\n") + run("--hidden-size 64")).what(), Contains("a second command"));
  CHECK_THAT(error_of("--num-layers 4\n").what(), Contains("--hidden-size is missing"));
}

TEST_CASE("Megatron: what mbench has no part for is named with its flag, value and line") {
  const auto names = [](const std::string& more, std::vector<std::string> wanted) {
    const Error e = error_of(kArguments + more);
    INFO(e.what());
    CHECK(e.kind() == ErrorKind::unsupported);
    for (const std::string& each : wanted) CHECK(std::string(e.what()).find(each) != std::string::npos);
  };
  names("--quick-geglu", {"--quick-geglu true (a.sh:5)"});
  names("--softmax-type off-by-one", {"--softmax-type \"off-by-one\"", "a fixed sink"});
  names("--window-size 8,8", {"--window-size \"8,8\""});
  names("--window-size 8,0 --window-attn-skip-freq '[1]*3'", {"--window-attn-skip-freq", "so many layers"});
  names("--optimizer dist_muon --cuda-graph-impl local --cuda-graph-scope mamba",
        {"--optimizer \"dist_muon\"", "--cuda-graph-scope"});
  names("--multi-latent-attention --qk-layernorm", {"--qk-layernorm", "layer norms of latents"});
  names("--hidden-dropout 0", {"--hidden-dropout", "--attention-dropout"});
  names("--use-megatron-fsdp", {"FSDP"});
  names("--fp8-format hybrid --fp8-recipe custom", {"--fp8-recipe \"custom\""});
  names("--fp8-format e4m3 --fp8-recipe rowwise", {"--fp8-recipe \"rowwise\""});
  names("--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather", {"--fp8-param-gather", "MXFP8"});
  names("--bf16 --fp4-format e2m1 --fp4-recipe custom", {"--fp4-recipe \"custom\""});
  names("--bf16 --fp4-format e2m1 --fp4-param-gather", {"--fp4-param-gather", "NVFP4"});
  names("--num-experts 4 --moe-layer-freq '([0,1]*3)'", {"--moe-layer-freq"});
  names("--recompute-granularity selective --recompute-modules core_attn shared_experts", {"--recompute-modules"});
  CHECK_NOTHROW(
      read_megatron(kArguments + "--quick-geglu", "a.sh", {.without = {"--quick-geglu"}, .variables = {}, .also = {}}));
}

TEST_CASE("Megatron: CUDA graphs of steps and of parts of layers, there and back") {
  const auto captured = [](const std::string& more) {
    const Point p = point_of(kArguments + more);
    const std::string script = write_megatron(p);
    INFO(script);
    CHECK(read_megatron(script, "b.sh", {}).spec.value("capture", json(false)) == write_capture(p.capture));
    return name_of(p.capture);
  };
  CHECK(captured("--cuda-graph-impl none --cuda-graph-scope attn") == "false");
  CHECK(captured("--cuda-graph-impl full_iteration") == "true");
  CHECK(captured("--cuda-graph-impl local --cuda-graph-scope full_iteration") == "true");
  CHECK(captured("--cuda-graph-impl local") == "layer");
  CHECK(captured("--enable-cuda-graph") == "layer");
  CHECK(captured("--external-cuda-graph --cuda-graph-scope attn") == "attention");
  CHECK(captured("--cuda-graph-impl transformer_engine --cuda-graph-modules attn mlp") == "attention+mlp");
}

TEST_CASE("Megatron: activations in host memory, of parts and of whole layers, there and back") {
  const auto offloaded = [](const std::string& more) {
    const Point p = point_of(kArguments + more);
    const std::string script = write_megatron(p);
    INFO(script);
    const Point again = point_of(script);
    CHECK(again.offload_activations == p.offload_activations);
    CHECK(again.min_offloaded_tensor_size == p.min_offloaded_tensor_size);
    return std::pair(name_of(p.offload_activations), p.min_offloaded_tensor_size);
  };
  using Pair = std::pair<std::string, std::int64_t>;
  CHECK(offloaded("") == Pair("none", 0));
  CHECK(offloaded("--offload-modules core_attn") == Pair("none", 0));  // which the flag turns on
  CHECK(offloaded("--fine-grained-activation-offloading --offload-modules core_attn attn_proj") ==
        Pair("core_attn+attn_proj", 1 << 20));
  CHECK(offloaded("--fine-grained-activation-offloading --offload-modules mlp_norm attn_norm qkv_linear "
                  "--min-offloaded-tensor-size 4096") == Pair("attn_norm+qkv_linear+mlp_norm", 4096));
  CHECK(offloaded("--cpu-offloading-num-layers 1") == Pair("layers:1", 0));
  for (const char* lacks : {"--fine-grained-activation-offloading --offload-modules core_attn "
                            "--activation-offload-fraction 0.5",
                            "--fine-grained-activation-offloading --offload-modules core_attn "
                            "--delta-offload-bytes-across-pp-ranks 100",
                            "--fine-grained-activation-offloading --offload-modules fused_group_mlp"}) {
    INFO(lacks);
    CHECK_THROWS_AS(point_of(kArguments + std::string(lacks)), Error);
  }
  Point alone = point_of(kArguments);
  alone.offload_activations.parts = {OffloadedPart::attn_proj};
  CHECK_THROWS_AS(write_megatron(alone), Error);
}

TEST_CASE("Megatron: biases of queries, keys and values, windows, sinks and experts by layer, there and back") {
  const auto there_and_back = [](const std::string& more) {
    const Point p = point_of(kArguments + more);
    const std::string script = write_megatron(p);
    INFO(script);
    CHECK(point_of(script).model == p.model);
    return std::pair(p.model, script);
  };
  CHECK(point_of(kArguments).model.parts().bias == Biases(true));
  const auto [biased, bias_script] = there_and_back("--disable-bias-linear --add-qkv-bias");
  CHECK(biased.parts().bias.qkv);
  CHECK_FALSE(biased.parts().bias.dense);
  CHECK_THAT(bias_script, Contains("--add-qkv-bias") && Contains("--disable-bias-linear"));

  // As Transformer Engine counts: 15 tokens before a query, and its own.
  const auto [windowed, window_script] = there_and_back("--window-size 15,0");
  CHECK(windowed.parts().window == 16);
  CHECK_THAT(window_script, Contains("--window-size '15,0'"));
  CHECK(there_and_back("--window-size '(15, 0)'").first == windowed);
  CHECK(point_of(kArguments + "--window-size=-1,0").model.parts().window == 0);
  const auto [every, every_script] = there_and_back("--window-size 15,0 --window-attn-skip-freq 2");
  REQUIRE(every.layers_of.size() == 1);
  for (std::int64_t layer = 0; layer < 4; ++layer) CHECK(every.layers_of[0].holds(layer) == (layer % 2 == 1));
  CHECK(every.layers_of[0].parts.window == 0);
  CHECK(there_and_back("--window-size 15,0 --window-attn-skip-freq '([1,0]*2)'").first == every);
  CHECK(there_and_back("--window-size 15,0 --window-attn-skip-freq '[0,0,1,1]'").first.layers_of.size() == 1);
  CHECK(there_and_back("--softmax-type learnable").first.parts().attention_sinks);
  CHECK(there_and_back("--position-embedding-type none").first.parts().position == PositionKind::none);

  const std::string experts =
      "--num-experts 8 --moe-ffn-hidden-size 32 --moe-shared-expert-intermediate-size 32 --moe-grouped-gemm ";
  const auto [second, second_script] = there_and_back(experts + "--moe-layer-freq 2 --moe-shared-expert-gate");
  CHECK(second.parts().shared_gate);
  REQUIRE(second.layers_of.size() == 1);
  for (std::int64_t layer = 0; layer < 4; ++layer)
    CHECK(second.layers_of[0].holds(layer) == (layer % 2 == 1));  // those without
  CHECK(second.layers_of[0].dense);
  CHECK(there_and_back(experts + "--moe-shared-expert-gate --moe-layer-freq '([1,0]*2)'").first == second);
}

TEST_CASE("Megatron: stages cut by hand, and ends that count as a layer, there and back") {
  const auto stages = [](int pp, const std::string& more) {
    return point_of(kArguments + fmt::format("--pipeline-model-parallel-size {} ", pp) + more);
  };
  const auto there_and_back = [&](const Point& p) {
    const std::string script = write_megatron(p);
    INFO(script);
    const Point again = point_of(script);
    CHECK(again.pipeline_layout == p.pipeline_layout);
    CHECK(again.virtual_stages == p.virtual_stages);
    CHECK(again.schedule == p.schedule);
    return script;
  };
  const Point cut = stages(3, "--pipeline-model-parallel-layout 'Et*2,|(t|)*1tL'");
  CHECK(cut.pipeline_layout == "Ett|t|tL");
  CHECK(cut.schedule == ScheduleKind::one_f_one_b);
  const Point chunks =
      stages(2, "--pipeline-model-parallel-layout \"E|(tt|)*2L\" --num-virtual-stages-per-pipeline-rank 2");
  CHECK(chunks.pipeline_layout == "E|tt|tt|L");
  CHECK(chunks.schedule == ScheduleKind::interleaved);
  CHECK(chunks.virtual_stages == 2);
  CHECK_THAT(there_and_back(chunks), Contains("--pipeline-model-parallel-layout 'E|tt|tt|L'"));
  CHECK_THAT(
      error_of(kArguments + "--pipeline-model-parallel-layout 'Et|t|ttL' --pipeline-model-parallel-size 2").what(),
      Contains("3 stages on 2 ranks"));
  CHECK_THAT(error_of(kArguments + "--pipeline-model-parallel-layout Etttt\\|L --pipeline-model-parallel-size 2 "
                                   "--account-for-loss-in-pipeline-split")
                 .what(),
             Contains("--pipeline-model-parallel-layout with --account-for-loss-in-pipeline-split"));
  CHECK_THAT(error_of(kArguments + "--pipeline-model-parallel-layout 'Et(t|ttL'").what(),
             Contains("a.sh:5") && Contains("a ( that does not close"));

  // 4 layers: with an end 5, with both 6.
  const std::string embedding = "--account-for-embedding-in-pipeline-split ",
                    loss = "--account-for-loss-in-pipeline-split ";
  CHECK(stages(5, embedding).pipeline_layout == "E|(t|)*3tL");
  CHECK(stages(5, loss).pipeline_layout == "Et|(t|)*3L");
  CHECK_THAT(there_and_back(stages(5, loss)), Contains("--pipeline-model-parallel-layout"));
  CHECK(stages(3, embedding + loss).pipeline_layout.empty());  // as mbench makes them
  CHECK_THAT(there_and_back(stages(3, embedding + loss)),
             Contains(embedding) && Contains("--account-for-loss-in-pipeline-split"));
  CHECK(stages(1, embedding).pipeline_layout.empty());
  CHECK_THAT(error_of(kArguments + embedding + "--pipeline-model-parallel-size 2").what(),
             Contains("4 layers and an end are no multiple of the 2 stages"));
  CHECK_THAT(error_of(kArguments + embedding + loss + "--pipeline-model-parallel-size 4").what(),
             Contains("4 layers and both ends are no multiple of the 4 stages"));

  // What Megatron makes of no flag but a layout.
  Point uneven = stages(1, "");
  uneven.model.layers = 23, uneven.pp = 4;
  try {
    write_megatron(uneven);
    FAIL("a script whose stages Megatron would refuse");
  } catch (const Error& e) {
    CHECK_THAT(e.what(), Contains("need pipeline_layout Et*5|t*6|t*6|t*6L"));
  }
}

TEST_CASE("Megatron: the vocabulary is padded as the script says") {
  CHECK(point_of(kArguments).vocab_multiple == 0);  // the framework's
  CHECK(point_of(kArguments + "--make-vocab-size-divisible-by 64").vocab_multiple == 64);
}

TEST_CASE("Megatron: ranks of a batch job") {
  const std::string run = "srun -l python -u pretrain_gpt.py " +
                          std::string(
                              "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
                              "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000");
  CHECK(point_of("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n" + run).dp == 32);
  CHECK_THAT(notes_of(run), Contains("how many ranks start is not said: dp 1"));
  CHECK_THAT(notes_of("torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES " + run.substr(run.find("pretrain"))),
             Contains("SLURM_NNODES is not set"));
}

// Flags come from the framework's file: an option that is added there goes out and comes back, or this fails.
TEST_CASE("Megatron: every choice of every option of the framework goes out and comes back") {
  const Point plain = point_of(kArguments +
                               "--num-experts 4 --moe-grouped-gemm --moe-token-dispatcher-type flex "
                               "--enable-experimental --moe-permute-fusion");
  int tried = 0;
  for (const FrameworkOption& option : find_builtin("megatron-core")->options())
    for (const FrameworkChoice& choice : option.choices) {
      Point point = plain;
      const json value =
          choice.name == "true" || choice.name == "false" ? json(choice.name == "true") : json(choice.name);
      set_framework_part(point.framework, option.name, value, "framework");
      INFO(name_of(point.framework));
      if (option.name == "permute_fusion")  // the map of indices is fused only with it
        point.ep_communication = EpCommunication::all_to_all;
      if (option.name == "keep_fp8_weight_transpose_cache" &&
          choice.name == "false") {  // of TransformerConfig, no flag
        CHECK_THROWS_AS(write_megatron(point), Error);
        continue;
      }
      const std::string script = write_megatron(point);
      CHECK(point_of(script).framework == point.framework);
      ++tried;
    }
  CHECK(tried >= 14);
  CHECK(name_of(point_of(kArguments + "--no-rope-fusion --deterministic-mode --no-create-attention-mask-in-dataloader "
                                      "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te")
                    .framework) == "megatron-core, deterministic true, mask_in_batch false, rope_fusion false");
}

TEST_CASE("Megatron: what of the optimizer is offloaded follows from who keeps the f32 main weights") {
  const std::string offload = kArguments + "--use-distributed-optimizer --optimizer-cpu-offload ";
  const auto read = [](const std::string& flags) { return point_of(flags).offload; };
  CHECK(read(kArguments + "--bf16 --use-precision-aware-optimizer") == Offload::none);
  CHECK(read(offload + "--bf16 --use-precision-aware-optimizer") == Offload::optimizer);
  CHECK(read(offload + "--bf16") == Offload::moments);
  CHECK(read(offload + "--fp16") == Offload::moments);
  CHECK(read(offload) == Offload::optimizer);  // f32 weights have no others
  CHECK(read(offload + "--bf16 --optimizer-offload-fraction 0") == Offload::none);
  Point part = point_of(offload + "--bf16 --use-precision-aware-optimizer --optimizer-offload-fraction 0.25");
  CHECK(part.offload_fraction == 0.25);
  CHECK(point_of(write_megatron(part)).offload_fraction == 0.25);
  CHECK_THROWS_WITH(read(kArguments + "--bf16 --chunked-optimizer-state-offload"),
                    Contains("comes back to the device for its update"));

  Point point = point_of(offload + "--bf16 --use-precision-aware-optimizer");
  const std::string script = write_megatron(point);
  CHECK_THAT(script, Contains("--optimizer-cpu-offload") && Contains("--use-precision-aware-optimizer"));
  CHECK(read(script) == Offload::optimizer);
  point.moments_in_bf16 = true;  // whose flag is the same
  CHECK(read(write_megatron(point)) == Offload::optimizer);
  point.moments_in_bf16 = false, point.zero = Zero::none;
  CHECK_THROWS_WITH(write_megatron(point), Contains("offload \"optimizer\": that takes the distributed optimizer"));
  point.zero = Zero::stage_1, point.offload = Offload::moments;
  CHECK_THROWS_WITH(write_megatron(point), Contains("with --use-precision-aware-optimizer only"));
  const std::string yaml = write_megatron_bridge(point);
  CHECK_THAT(yaml, Contains("optimizer_cpu_offload: true") && Contains("optimizer_offload_fraction: 1"));
  CHECK(point_from_json(json(read_megatron(parse_yaml(yaml, "b.yaml"), "b.yaml", {}).spec), "spec").offload ==
        Offload::moments);
  point.moments_in_bf16 = true;
  CHECK_THROWS_WITH(write_megatron_bridge(point), Contains("with moments in bf16"));
}

TEST_CASE("Megatron: what differs in precision goes out and comes back") {
  const std::pair<const char*, const char*> all[] = {
      {"--bf16 --grad-reduce-in-bf16", R"({"preset":"bf16","gradients":"bf16"})"},
      {"--fp16 --accumulate-allreduce-grads-in-fp32", R"({"preset":"fp16","gradients":"f32"})"},
      {"--bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
       R"({"preset":"bf16","moments":"bf16"})"},
      {"--bf16 --fp8-format hybrid --fp8-recipe blockwise --fp8-param-gather",
       R"({"preset":"fp8","fp8_recipe":"blockwise","fp8_parameters":true})"},
      {"--bf16 --fp8-format e4m3 --fp8-recipe mxfp8", R"("mxfp8")"},
      {"--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag",
       R"({"preset":"mxfp8","fp8_parameters":true})"},
      {"--bf16 --fp4-format e2m1 --fp4-recipe nvfp4", R"("nvfp4")"},
      {"--bf16 --fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 2",
       R"({"preset":"fp8","first_layers_in_bf16":1,"last_layers_in_bf16":2})"},
      {"--bf16", R"("bf16")"}};
  for (const auto& [flags, wanted] : all) {
    const nlohmann::ordered_json spec = read_megatron(kArguments + flags, "a.sh", {}).spec;
    CHECK(spec.at("precision").dump() == wanted);
    const Point point = point_from_json(json(spec), "spec");
    CHECK(read_megatron(write_megatron(point), "b.sh", {}).spec.at("precision") == spec.at("precision"));
  }
}
