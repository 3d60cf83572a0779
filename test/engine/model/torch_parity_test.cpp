// The engine trains as PyTorch does: the same weights and tokens (both are drawn from counters), the same
// losses, gradient norms and first gradients. PyTorch's numbers are in float64, some by way of Hugging Face
// transformers (scripts/make_fixtures.py); the tolerances are what f32 rounding needs, well below what any wrong
// term, scale or mask would move. They are not those of engine/point/tolerance.h, which are for two runs of this
// engine: here one side is another program in float64, and gradients are compared by parameter.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/point/adapter_weights.h"
#include "engine/point/point.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::train;
using namespace mbench::test;
using Json = nlohmann::json;

namespace {

struct Tolerance {
  double loss;      // relative
  double norm;      // relative, of the whole gradient at every step
  double gradient;  // of a parameter's gradient at step 0, relative to its norm
};

struct Fixture {
  std::string name;
  Json json;
  Point point;
  explicit Fixture(const std::string& name) : name(name) {
    const std::string path = MBENCH_SOURCE_DIR "/test/fixtures/models/" + name + ".json";
    std::ifstream in(path);
    INFO(path);
    REQUIRE(in);
    json = Json::parse(in);
    point = point_from_json(json.at("point"), path);
  }
};

// `sum` sees every element, also where the entries do not look: n independent errors of e * norm / sqrt(n)
// each add up to e * norm, and errors of one sign to sqrt(n) as much.
void check_gradient(const Json& want, const std::vector<float>& got, double tolerance) {
  INFO(want.at("name").get<std::string>());
  const double norm = want.at("norm");
  const std::size_t n = got.size();
  double sum = 0, squares = 0;
  for (const float g : got) sum += g, squares += static_cast<double>(g) * g;
  CHECK(std::sqrt(squares) == Approx(norm).epsilon(tolerance));
  CHECK(std::fabs(sum - want.at("sum").get<double>()) <= tolerance * norm * std::sqrt(static_cast<double>(n)));
  const Json& entries = want.at("entries");
  REQUIRE(!entries.empty());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    INFO("entry " << i << " of " << entries.size());
    CHECK(std::fabs(got[i * n / entries.size()] - entries[i].get<double>()) <= tolerance * norm);
  }
}

void check_gradients(const Fixture& fixture, SerialRun& run, double tolerance) {
  const ParameterStore& store = run.trainer.parameters();
  const Json& all = fixture.json.at("gradients");
  // Every parameter of either side has a partner.
  REQUIRE(all.size() == store.all().size());
  std::int64_t count = 0;
  for (const Json& want : all) {
    const std::string name = want.at("name");
    INFO(name);
    const auto found =
        std::find_if(store.all().begin(), store.all().end(), [&](const auto& p) { return p->name() == name; });
    REQUIRE(found != store.all().end());
    const Parameter* p = found->get();
    REQUIRE(p->spec.shape.numel() == p->local.numel());
    for (int d = 0; d < p->spec.shape.rank(); ++d)
      REQUIRE(p->spec.shape[d] == want.at("shape")[static_cast<std::size_t>(d)].get<std::int64_t>());
    check_gradient(want, floats_of(*run.device, store.gradient_of(*p)), tolerance);
    count += p->spec.shape.numel();
  }
  CHECK(count == fixture.json.at("parameters").get<std::int64_t>());
  const Point& point = fixture.point;
  CHECK(count ==
        (point.adapter.on() ? adapter_parameter_count(point.model, point.adapter) : parameter_count(point.model, 1)));
}

void check_training(const Fixture& fixture, Graph graph, AttentionKind attention, const Tolerance& tolerance) {
  INFO(fixture.name << ", graph " << name_of(graph) << ", attention " << name_of(attention));
  Point point = fixture.point;
  point.framework = keeps(graph);
  point.attention = attention;
  SerialRun run(point);
  const auto losses = fixture.json.at("losses").get<std::vector<double>>();
  const auto norms = fixture.json.at("gradient_norms").get<std::vector<double>>();
  const auto added = fixture.json.value("auxiliary_losses", std::vector<double>());
  REQUIRE(losses.size() == static_cast<std::size_t>(point.iterations));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    INFO("step " << i);
    const StepResult step = run.trainer.step();
    CHECK(!step.skipped);
    CHECK(run.trainer.mean_loss() == Approx(losses[i]).epsilon(tolerance.loss));
    CHECK(run.trainer.auxiliary_loss().value_or(0) == Approx(added.empty() ? 0 : added[i]).epsilon(tolerance.loss));
    CHECK(step.gradient_norm == Approx(norms[i]).epsilon(tolerance.norm));
    if (i == 0) check_gradients(fixture, run, tolerance.gradient);
  }
}

}  // namespace

TEST_CASE("tiny GPT and BERT train as in PyTorch") {
  for (const char* name : {"gpt_tiny", "bert_tiny"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        check_training(fixture, graph, attention, {1e-5, 1e-4, 1e-5});
  }
}

// RMSNorm, rotary positions, grouped queries, normed queries and keys, latent attention, SwiGLU, squared ReLU, norms last, GELU by erf. Of these transformers computes RMSNorm
// and rotary angles in float32 itself, which is no more than the engine's own rounding.
TEST_CASE("tiny LLaMA, Qwen3, DeepSeek, Nemotron and BERT as published train as in transformers") {
  for (const char* name : {"llama_tiny", "llama_odd", "qwen3_odd", "deepseek_odd", "deepseek_straight",
                           "deepseek_yarn_odd", "longrope_odd", "longrope_short_odd", "nemotron_odd", "bert_post"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        check_training(fixture, graph, attention, {1e-5, 1e-5, 1e-5});
  }
}

// The body of a model with a linear layer that labels samples, of the first position or the last.
TEST_CASE("tiny BERT, GPT-2 and LLaMA label samples as in transformers") {
  for (const char* name : {"bert_labels", "bert_post_labels", "gpt2_labels", "llama_labels", "mixtral_labels"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        check_training(fixture, graph, attention, {1e-5, 1e-5, 1e-5});
  }
}

// The frozen weights are those of transformers' model, and what is trained is peft's.
TEST_CASE("tiny GPT and LLaMA with low-rank adapters train as in peft") {
  for (const char* name : {"gpt_lora", "llama_lora", "bert_labels_lora"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        check_training(fixture, graph, attention, {1e-5, 1e-5, 1e-5});
  }
}

// Experts have an A and a B each. Their router is frozen; its losses move what is before it all the same.
TEST_CASE("tiny Mixtral with low-rank adapters of experts trains as in peft") {
  const Fixture fixture("mixtral_lora");
  for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
    check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
}

// Parts of newer families: norms of outputs, of all heads, branches side by side.
TEST_CASE("tiny OLMo 2 and GPT-NeoX train as in transformers") {
  for (const char* name : {"olmo2_odd", "gpt_neox_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      check_training(fixture, graph, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
  }
}

// Windows, caps of scores and logits, four norms, gated GELU; slopes by head, a norm of the embedding.
TEST_CASE("tiny Gemma 2, MPT and BLOOM train as in transformers") {
  for (const char* name : {"gemma2_odd", "mpt_odd", "bloom_odd"}) {
    const Fixture fixture(name);
    check_training(fixture, Graph::fused, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
  }
}

// Both branches behind one norm, or each behind its own; grouped queries, a fraction of columns turned, scaled logits and biased ones.
TEST_CASE("tiny Command-R, GPT-J and Falcon train as in transformers") {
  for (const char* name : {"cohere_odd", "gpt_j_odd", "falcon_odd", "falcon_new_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
}

// Four norms with norms of queries and keys, windows whose layers turn by another base; biases of queries, keys and values.
TEST_CASE("tiny Gemma 3 and GLM-4 train as in transformers") {
  for (const char* name : {"gemma3_odd", "glm4_odd"}) {
    const Fixture fixture(name);
    check_training(fixture, Graph::fused, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
  }
}

// An activation with two numbers of each block that are learned.
TEST_CASE("tiny Apertus trains as in transformers") {
  for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
    check_training(Fixture("apertus_odd"), graph, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
}

// Documents that are packed into a sequence: of given lengths and drawn, with positions that restart and that go on, with windows and caps.
TEST_CASE("tiny LLaMA, GPT and Gemma 2 with packed documents train as in transformers") {
  for (const char* name : {"llama_packed", "gpt_packed", "gpt_packed_on"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        check_training(fixture, graph, attention, {1e-5, 1e-5, 1e-5});
  }
  check_training(Fixture("gemma2_packed"), Graph::fused, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
}

// Learned and balanced routing, losses of routers, corrections that follow the loads, groups of experts, shared experts, dense
// layers before them.
TEST_CASE("tiny Mixtral, Qwen3 and DeepSeek with experts train as in transformers") {
  for (const char* name : {"mixtral_odd", "qwen3_moe_odd", "deepseek_moe_odd", "dbrx_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
}

// Weights of experts' inputs, layers without positions and layers without experts.
TEST_CASE("tiny Llama 4 trains as in transformers") {
  const Fixture fixture("llama4_odd");
  for (const Graph graph : {Graph::fused, Graph::megatron_core})
    check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
}

// Layer norms of queries and keys with a weight for each head.
TEST_CASE("tiny Command-R+ trains as in transformers") {
  const Fixture fixture("command_r_plus_odd");
  for (const Graph graph : {Graph::eager, Graph::fused})
    check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
}

// Attention in chunks, norms of queries and keys without weights, queries that grow with their position.
TEST_CASE("tiny Llama 4 with chunks and temperatures trains as in transformers") {
  const Fixture fixture("llama4_chunks_odd");
  for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
    check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  check_training(fixture, Graph::fused, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
}

// Biases of queries, keys and values, a gated GELU behind a scaled embedding, a gated shared expert of its own width.
TEST_CASE("tiny Qwen2, Gemma and Qwen2-MoE train as in transformers") {
  for (const char* name : {"qwen2_odd", "gemma_odd", "qwen2_moe_odd"})
    check_training(Fixture(name), Graph::fused, AttentionKind::core, {1e-5, 1e-5, 1e-5});
}

// Biases of experts and of their router, a clamped SwiGLU.
TEST_CASE("tiny GPT-OSS trains as in transformers") {
  const Fixture fixture("gpt_oss_odd");
  for (const Graph graph : {Graph::fused, Graph::megatron_core})
    check_training(fixture, graph, AttentionKind::flash, {1e-5, 1e-5, 1e-5});
}

TEST_CASE("tiny LLaMA and DeepSeek with multi-token prediction train as in transformers") {
  for (const char* name : {"llama_ahead", "deepseek_ahead", "deepseek_repeated"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
}

// Mamba-2 alone; with attention, feed-forward blocks and experts, a branch each layer; experts in a latent width; groups, chunks that the sequence does not fill.
TEST_CASE("tiny Mamba-2, Nemotron-H and Qwen3-Next train as in transformers") {
  for (const char* name : {"mamba2_odd", "nemotron_h_odd", "nemotron_h_moe_odd", "nemotron_3_odd", "qwen3_next_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
  check_training(Fixture("nemotron_h_odd"), Graph::megatron_core, AttentionKind::core, {1e-5, 1e-5, 1e-5});
}

// The first Mamba: alone, with norms of steps, B and C, and with attention and experts in some layers.
TEST_CASE("tiny Mamba, Falcon Mamba and Jamba train as in transformers") {
  for (const char* name : {"mamba_odd", "falcon_mamba_odd", "jamba_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
}

// Short convolutions; attention beside Mamba-2, with factors; lightning attention with normed residuals; norms by layer.
TEST_CASE("tiny LFM2, Falcon-H1, MiniMax-01 and OLMo Hybrid train as in transformers") {
  for (const char* name :
       {"lfm2_odd", "lfm2_moe_odd", "falcon_h1_odd", "falcon_h1_norm_odd", "minimax_odd", "olmo_hybrid_odd"}) {
    const Fixture fixture(name);
    for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
      check_training(fixture, graph, AttentionKind::core, {1e-5, 1e-5, 1e-5});
  }
}

// Losses are about 11: relative 9e-6 is 1e-4 absolute.
TEST_CASE("GPT-2 124M trains as in PyTorch") {
  check_training(Fixture("gpt2-124m"), Graph::fused, AttentionKind::core, {9e-6, 1e-4, 1e-4});
}

TEST_CASE("BERT-base trains as in PyTorch") {
  check_training(Fixture("bert-base"), Graph::fused, AttentionKind::core, {9e-6, 1e-4, 1e-4});
}
