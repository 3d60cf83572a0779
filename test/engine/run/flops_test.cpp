// The FLOPs of a step: numbers worked out by hand, and what the engine's meter really counted.
#include "engine/run/flops.h"

#include <nlohmann/json.hpp>

#include "engine/point/adapter_weights.h"
#include "engine/point/model_spec.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::test;

namespace {

Point preset(const char* name, std::int64_t seq, std::int64_t batch) {
  Point p;
  p.model = find_preset(name, "test");
  p.seq = seq;
  p.global_batch = batch;
  return p;
}

// A model whose vocabulary needs no padding, so that executed and model FLOPs can be equal.
Point tiny(const std::string& family) {
  Point p;
  p.model = {"tiny", family, 3, 32, 4, 96, 128, 32};
  p.seq = 16;
  p.micro_batch = 2;
  p.global_batch = 4;
  return p;
}

double executed(Point p, Recompute recompute, Graph graph, AttentionKind attention) {
  p.recompute = recompute;
  p.framework = keeps(graph);
  p.attention = attention;
  SerialRun run(p);
  run.device->meter().reset();
  run.trainer.step();
  return run.device->meter().matmul_flops;
}

}  // namespace

TEST_CASE("model FLOPs by hand") {
  // A token of GPT-2 124M: 12 layers of 12 * 768^2 = 84,934,656 weights, logits of 768 * 50257 = 38,597,376;
  // six times both is 741,192,192. Attention 12 * 12 * 768 * 1024 = 113,246,208. 1024 tokens.
  CHECK(model_flops(preset("gpt2-124m", 1024, 1)) == 874944921600.0);
  CHECK(model_flops_causal(preset("gpt2-124m", 1024, 1)) == 816962863104.0);
  CHECK(model_flops(preset("gpt-1.3b", 1024, 512)) == 4440349791485952.0);
  // BERT 345M, 4 samples of 512: 512 * (6 * (24 * 12 * 1024^2 + 1024 * 30522 + 1024^2) + 12 * 24 * 1024 * 512)
  // + 6 * (1024^2 + 2 * 1024) a sample.
  CHECK(model_flops(preset("bert-345m", 512, 4)) == 4417055145984.0);
  CHECK(model_flops_causal(preset("bert-345m", 512, 4)) == model_flops(preset("bert-345m", 512, 4)));
  // LLaMA 3 8B at 8192: 8,030,261,248 weights without the table of 128256 x 4096 and 65 norms of 4096, six times; attention
  // 12 * 32 * 4096 * 8192. 57.9 GFLOP a token, 51.5 causal.
  const double tokens = 8192;
  CHECK(model_flops(preset("llama-3-8b", 8192, 1)) / tokens ==
        6.0 * (8030261248 - 128256 * 4096 - 65 * 4096) + 12.0 * 32 * 4096 * 8192);
  CHECK(model_flops(preset("llama-3-8b", 8192, 1)) / tokens == Approx(57.9e9).epsilon(0.001));
  CHECK(model_flops_causal(preset("llama-3-8b", 8192, 1)) / tokens == Approx(51.5e9).epsilon(0.001));
}

TEST_CASE("parameter counts of the presets") {
  // Published: GPT-2 small has 124,439,808 with its vocabulary of 50257; 47 rows of padding make it 50304.
  CHECK(parameter_count(find_preset("gpt2-124m", "test"), 1) == 124439808 + 47 * 768);
  CHECK(parameter_count(find_preset("gpt-1.3b", "test"), 1) == 1313722368);
  // GPT-2 medium: 354,823,168 and padding.
  CHECK(parameter_count(find_preset("gpt2-345m", "test"), 1) == 354823168 + 47 * 1024);
}

TEST_CASE("the parameters a model has are those that are counted") {
  for (const std::string family : {"gpt", "bert"}) {
    const SerialRun run(tiny(family));
    std::int64_t n = 0;
    for (const auto& p : run.trainer.parameters().all())
      if (p->counted) n += p->spec.shape.numel();
    CHECK(n == parameter_count(run.plan.model, 1));
  }
}

TEST_CASE("what the engine executes is what the formula says, plus what is computed again") {
  for (const std::string family : {"gpt", "bert"}) {
    INFO(family);
    const Point p = tiny(family);
    const double tokens = 4 * 16, layers = 3, h = 32, f = 96, s = 16;
    // A forward of what recompute drops; of a fused causal core, half the square.
    const double core = tokens * layers * 4 * h * s, fused_core = family == "gpt" ? core / 2 : core;
    const double layer_weights = tokens * layers * 2 * (4 * h * h + 2 * h * f);
    const AttentionKind keep = AttentionKind::core, flash = AttentionKind::flash;
    CHECK(executed(p, Recompute::none, Graph::eager, keep) == model_flops(p));
    CHECK(executed(p, Recompute::selective, Graph::eager, keep) == model_flops(p) + core);
    CHECK(executed(p, Recompute::full, Graph::eager, keep) == model_flops(p) + core + layer_weights);
    CHECK(executed(p, Recompute::none, Graph::fused, keep) == model_flops_causal(p));
    CHECK(executed(p, Recompute::selective, Graph::fused, keep) == model_flops_causal(p) + fused_core);
    CHECK(executed(p, Recompute::full, Graph::fused, keep) == model_flops_causal(p) + fused_core + layer_weights);
    // Flash computes the scores once more in its backward: half of a core's forward.
    CHECK(executed(p, Recompute::none, Graph::fused, flash) == model_flops_causal(p) + fused_core / 2);
  }
}

TEST_CASE("adapters: frozen weights have no gradients of their own, and what is executed is what the formula says") {
  for (const std::string family : {"gpt", "bert", "llama"})
    for (const char* adapter : {"lora:4", "lora:2,alpha=8,targets=qkv+fc2"}) {
      INFO(family << ", " << adapter);
      Point p = tiny(family);
      const double whole = model_flops(p);
      p.adapter = read_adapter(adapter, "test");
      CHECK(executed(p, Recompute::none, Graph::eager, AttentionKind::core) == model_flops(p));
      CHECK(executed(p, Recompute::none, Graph::fused, AttentionKind::core) == model_flops_causal(p));
      CHECK(model_flops(p) < 0.9 * whole);
      const SerialRun run(p);
      std::int64_t trained = 0, frozen = 0;
      for (const auto& parameter : run.trainer.parameters().all()) trained += parameter->spec.shape.numel();
      for (const auto& parameter : run.trainer.parameters().frozen().all()) {
        frozen += parameter->spec.shape.numel();
        CHECK_FALSE(parameter->gradient);
      }
      CHECK(trained == adapter_parameter_count(p.model, p.adapter));
      CHECK(frozen == parameter_count(run.plan.model, 1));
    }
}

TEST_CASE("attention of other parts executes what the formula says, with the weights that are counted") {
  Point normed = tiny("llama"), latent = tiny("deepseek");
  normed.model.kv_heads = 2;
  normed.model.own_parts = normed.model.parts();
  normed.model.own_parts->qk_norm = QkNorm::each_head;
  latent.model.kv_lora_rank = 10, latent.model.qk_nope_head_dim = 6, latent.model.qk_rope_head_dim = 4;
  latent.model.v_head_dim = 5;
  Point two_ranks = latent;
  two_ranks.model.q_lora_rank = 12;
  for (const Point& p : {normed, latent, two_ranks}) {
    INFO(p.model.family << ", q_lora_rank " << p.model.q_lora_rank);
    CHECK(executed(p, Recompute::none, Graph::eager, AttentionKind::core) == model_flops(p));
    CHECK(executed(p, Recompute::none, Graph::fused, AttentionKind::core) == model_flops_causal(p));
    const SerialRun run(p);
    std::int64_t n = 0;
    for (const auto& parameter : run.trainer.parameters().all()) n += parameter->spec.shape.numel();
    CHECK(n == parameter_count(p.model, 1));
  }
  // A window of 4 in 2 of 3 layers: 4 keys for every query, or 1, 2, 3, 4, 4, ... of 16.
  Point windowed = tiny("llama");
  windowed.attention = AttentionKind::flash;
  const double plain = model_flops(windowed), plain_causal = model_flops_causal(windowed);
  windowed.model = read_model(
      nlohmann::json::parse(fmt::format(R"({{"family": "llama", "layers": {}, "hidden": {}, "heads": {}, "ffn": {},
      "vocab": {}, "positions": {}, "layers_of": [{{"every": 2, "window": 4}}]}})",
                                        windowed.model.layers, windowed.model.hidden, windowed.model.heads,
                                        windowed.model.ffn, windowed.model.vocab, windowed.model.positions)),
      "model");
  const double a_key = 6 * 2 * 32 * 4 * 16;  // of all tokens
  REQUIRE(windowed.model.layers == 3);
  CHECK(plain - model_flops(windowed) == 2 * a_key * (16 - 4));
  CHECK(plain_causal - model_flops_causal(windowed) == 2 * a_key * (8 - (1 + 2 + 3 + 4 * 13) / 16.0));
  // Chunks of 6, 6 and 4 in 2 of 3 layers: each query has the keys of its own, or those up to it.
  Point chunked = tiny("llama");
  chunked.model.own_parts = chunked.model.parts();
  LayerRule rule{2, 0, 0, false, {"attention_chunk"}, *chunked.model.own_parts};
  rule.parts.attention_chunk = 6;
  chunked.model.layers_of = {rule};
  CHECK(plain - model_flops(chunked) == Approx(2 * a_key * (16 - (6 * 6 + 6 * 6 + 4 * 4) / 16.0)).epsilon(1e-12));
  CHECK(plain_causal - model_flops_causal(chunked) ==
        Approx(2 * a_key * (16 - (6 * 6 + 6 * 6 + 4 * 4) / 16.0) / 2).epsilon(1e-12));
  // Documents of 6, 6 and 4: each query has the keys of its own, or those up to it; with the window of 4 in 2 of 3 layers 4, or 1, 2, 3, 4, ...
  Point packed = tiny("llama");
  packed.document_lengths.lengths = {6};
  CHECK(plain - model_flops(packed) == Approx(3 * a_key * (16 - (6 * 6 + 6 * 6 + 4 * 4) / 16.0)).epsilon(1e-12));
  CHECK(plain_causal - model_flops_causal(packed) ==
        Approx(3 * a_key * (16 - (6 * 6 + 6 * 6 + 4 * 4) / 16.0) / 2).epsilon(1e-12));
  packed.model = windowed.model;
  CHECK(plain - model_flops(packed) ==
        Approx(a_key * (16 - (6 * 6 + 6 * 6 + 4 * 4) / 16.0) + 2 * a_key * (16 - 4)).epsilon(1e-12));
  // A token: logits of 32 x 128, and of each of 3 layers the feed-forward block, latents of 12 + 10 + 4, queries of 4 heads of
  // 10, keys and values of 6 + 5, the output of 5; of attention 4 heads of 10 + 5 over 16 positions.
  const double weights = 32 * 128 + 3 * (3 * 32 * 96 + 26 * 32 + 4 * 10 * 12 + 4 * 11 * 10 + 4 * 5 * 32);
  CHECK(model_flops(two_ranks) == 4 * 16 * (6 * weights + 3 * 6 * 4 * (10 + 5) * 16));
}
