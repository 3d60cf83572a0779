#include "formats/megatron/config_yaml.h"

#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "engine/point/point.h"
#include "formats/megatron/bridge.h"
#include "formats/megatron/megatron.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

Imported import(const std::string& text, const ImportOptions& options = {}) {
  return read_megatron(parse_yaml(text, "a.yaml"), "a.yaml", options);
}

Point point_of(const Imported& imported) {
  return point_from_json(nlohmann::json(imported.spec), "spec");
}

constexpr const char* kBridge = R"(_target_: megatron.bridge.training.config.ConfigContainer
checkpoint: {_target_: megatron.bridge.training.config.CheckpointConfig, save: /tmp}
comm_overlap: null
dataset: {sequence_length: 4096, num_workers: 1}
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true, grad_reduce_in_fp32: false}
mixed_precision: {bf16: true, fp8: null, fp8_recipe: tensorwise}
model:
  _target_: megatron.bridge.models.llama.llama_provider.Llama31ModelProvider
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  add_bias_linear: false
  attention_backend: {_args_: [1], _call_: true, _target_: megatron.core.transformer.enums.AttnBackend}
  attention_dropout: 0.0
  bf16: true
  bias_dropout_fusion: true
  cross_entropy_fusion_impl: te
  cross_entropy_loss_fusion: true
  ffn_hidden_size: 14336
  gated_linear_unit: true
  hidden_dropout: 0.0
  hidden_size: 4096
  init_method: {_args_: [], _partial_: true, _target_: torch.nn.init.normal_, mean: 0.0}
  moe_aux_loss_coeff: 0.0
  moe_router_load_balancing_type: aux_loss
  normalization: RMSNorm
  num_attention_heads: 32
  num_layers: 32
  num_moe_experts: null
  num_query_groups: 8
  params_dtype: {_call_: false, _target_: torch.bfloat16}
  pipeline_model_parallel_size: 2
  position_embedding_type: rope
  rotary_base: 500000.0
  rotary_percent: 1.0
  seq_length: 8192
  sequence_parallel: true
  share_embeddings_and_output_weights: false
  strange_setting: 7
  tensor_model_parallel_size: 4
  vocab_size: 128256
optimizer: {lr: 0.0003, optimizer: adam, optimizer_cpu_offload: false, optimizer_offload_fraction: 0.0, overlap_param_gather: false, weight_decay: 0.1}
rng: {seed: 1234}
tokenizer: {tokenizer_type: NullTokenizer, vocab_size: 128256}
train: {global_batch_size: 512, micro_batch_size: 1, train_iters: 10}
)";

}  // namespace

TEST_CASE("Megatron-Bridge's ConfigContainer is the point of the same flags") {
  const Imported imported = import(kBridge);
  INFO(fmt::format("{}", fmt::join(imported.notes, "\n")));
  const Point p = point_of(imported);
  CHECK(p.model.layers == 32);
  CHECK(p.model.kv_heads == 8);
  CHECK(p.model.positions == 8192);
  CHECK(p.seq == 4096);
  CHECK(p.tp == 4);
  CHECK(p.pp == 2);
  CHECK(p.sequence_parallel);
  CHECK(p.global_batch == 512);
  CHECK(p.overlap_param_gather);  // ddp's, not the optimizer's
  CHECK(p.gradients_in_bf16);
  CHECK(p.weight_decay == 0.1);
  CHECK_FALSE(p.model.parts().tied_embedding);
  const Imported flags = read_megatron(
      "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --rotary-base 500000 "
      "--rotary-percent 1.0 --max-position-embeddings 8192 --seq-length 4096 "
      "--attention-dropout 0 --hidden-dropout 0 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
      "--sequence-parallel --micro-batch-size 1 --global-batch-size 512 --bf16 "
      "--attention-backend flash --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
      "--grad-reduce-in-bf16 --cross-entropy-loss-fusion --cross-entropy-fusion-impl te "
      "--lr 0.0003 --weight-decay 0.1 --seed 1234 --vocab-size 128256\n",
      "flags", {});
  CHECK(point_of(flags) == p);
  bool named = false;
  for (const std::string& note : imported.notes)
    named = named || note.find("not known to mbench, and not in the spec: --strange-setting 7 (a.yaml:") ==
                         0;  // and nothing else
  CHECK(named);
}

TEST_CASE("a point is written as Megatron-Bridge's ConfigContainer, and is the same when it is read") {
  const auto point_of_flags = [](const std::string& flags) {
    return point_of(
        read_megatron("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 512 "
                      "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 2048 "
                      "--micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16 " +
                          flags + "\n",
                      "flags", {}));
  };
  const auto written = [](const Point& p) {
    const std::string text = write_megatron_bridge(p);
    INFO(text);
    const Yaml yaml = parse_yaml(text, "b.yaml");
    CHECK(yaml.value.at("_target_") == "megatron.bridge.training.config.ConfigContainer");
    return yaml.value;
  };
  const auto dense =
      written(point_of_flags("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
                             "--swiglu --normalization RMSNorm --disable-bias-linear "
                             "--untie-embeddings-and-output-weights --position-embedding-type rope "
                             "--group-query-attention --num-query-groups 4 --attention-backend flash "
                             "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
                             "--grad-reduce-in-bf16 --no-create-attention-mask-in-dataloader "
                             "--recompute-granularity selective --recompute-modules core_attn --lr 0.0003 --seed 7"));
  CHECK(dense.at("model").at("tensor_model_parallel_size") == 2);
  CHECK(dense.at("model").at("gated_linear_unit") == true);
  CHECK(dense.at("model").at("activation_func").at("_target_") == "torch.nn.functional.silu");
  CHECK(dense.at("model").at("add_bias_linear") == false);
  CHECK(dense.at("model").at("share_embeddings_and_output_weights") == false);
  CHECK(dense.at("model").at("seq_length") == 2048);  // the most positions there
  CHECK(dense.at("model").at("attention_backend").at("_args_")[0] == 1);
  CHECK(dense.at("dataset").at("sequence_length") == 1024);
  CHECK(dense.at("dataset").at("skip_getting_attention_mask_from_dataset") == true);
  CHECK(dense.at("ddp").at("grad_reduce_in_fp32") == false);
  CHECK(dense.at("ddp").at("overlap_param_gather") == true);
  CHECK(dense.at("ddp").at("overlap_grad_reduce") == true);
  CHECK(dense.at("optimizer").at("use_distributed_optimizer") == true);
  CHECK(dense.at("train").at("global_batch_size") == 64);
  CHECK(dense.at("mixed_precision").at("bf16") == true);
  CHECK(dense.at("rng").at("seed") == 7);
  const auto experts = written(
      point_of_flags("--num-experts 8 --moe-ffn-hidden-size 256 --expert-model-parallel-size 4 --moe-grouped-gemm "
                     "--moe-token-dispatcher-type alltoall "
                     "--moe-layer-freq '([0]*1+[1]*7)' --window-size 127,0 --disable-bias-linear --add-qkv-bias"));
  CHECK(experts.at("model").at("num_moe_experts") == 8);
  CHECK(experts.at("model").at("moe_layer_freq").size() == 8);
  CHECK(experts.at("model").at("window_size")[0] == 127);
  CHECK(experts.at("model").at("add_qkv_bias") == true);
  CHECK_THROWS_WITH(
      write_megatron_bridge(point_of_flags(
          "--multi-latent-attention --qk-layernorm --normalization RMSNorm --position-embedding-type rope")),
      Contains("no ConfigContainer says") && Contains("a provider of its own"));
}

TEST_CASE("Megatron-Bridge's YAML: a layout as a text and as a list of lists") {
  std::string list = "[[embedding, decoder]";
  for (int i = 0; i < 3; ++i) list += ", [decoder]";
  for (const auto& [layout, text] :
       {std::pair<std::string, std::string>{"'Et|(t|)*3L'", "Et|(t|)*3L"}, {list + ", [loss]]", "Et|(t|)*3L"}}) {
    const Point p = point_of(import(
        fmt::format("language_model:\n  num_layers: 4\n  hidden_size: 64\n  num_attention_heads: 4\nmodel_parallel:\n"
                    "  pipeline_model_parallel_size: 5\n  pipeline_model_parallel_layout: {}\nmicro_batch_size: "
                    "1\nglobal_batch_size: 8\n"
                    "max_position_embeddings: 128\nseq_length: 128\nhidden_dropout: 0.0\nattention_dropout: 0.0\n",
                    layout),
        {{}, {}, {"--vocab-size 1000"}}));
    CHECK(p.pipeline_layout == text);
    CHECK(p.virtual_stages == 1);
  }
}

TEST_CASE("what Megatron-Bridge's YAML has and mbench has no part for is named by its line") {
  std::string text = kBridge;
  text.replace(text.find("num_layers: 32"), 14, "num_layers: 32\n  fp32_residual_connection: true");
  CHECK_THROWS_WITH(import(text), Contains("--fp32-residual-connection") && Contains("a.yaml:"));
}

TEST_CASE("Megatron-LM's YAML config, and the model_config.yaml of its tests") {
  const Point yaml = point_of(import(R"(language_model:
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  num_query_groups: null
  hidden_dropout: 0.0
  attention_dropout: 0.0
  add_bias_linear: False
  gated_linear_unit: False
  activation_func: swiglu
  normalization: "RMSNorm"
  fp8: null
model_parallel:
  tensor_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: True
  bf16: True
micro_batch_size: 2
global_batch_size: 128
swiglu: True
untie_embeddings_and_output_weights: True
position_embedding_type: rope
max_position_embeddings: 4096
seq_length: 4096
optimizer: adam
lr: 2.5e-4
overlap_grad_reduce: False
transformer_impl: local
tokenizer_type: GPTSentencePieceTokenizer
vocab_size: null
)",
                                     {{}, {}, {"--vocab-size 32000"}}));
  CHECK(yaml.tp == 2);
  CHECK(yaml.model.vocab == 32000);
  CHECK_FALSE(yaml.overlap_grad_reduce);
  CHECK(yaml.learning_rate == 2.5e-4);
  const Point flags =
      point_of(import("ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  "
                      "--num-attention-heads: 8\n  --micro-batch-size: 4\n  --global-batch-size: 32\n"
                      "  --seq-length: 1024\n  --max-position-embeddings: 1024\n  --vocab-size: 1024\n  --bf16: true\n "
                      " --sequence-parallel: false\n  --recompute-granularity: selective\n"
                      "  --recompute-modules: 'core_attn mlp'\nTEST_TYPE: regular\n"));
  CHECK(flags.model.layers == 12);
  CHECK_FALSE(flags.sequence_parallel);
  CHECK(flags.precision == Precision::bf16);
}
