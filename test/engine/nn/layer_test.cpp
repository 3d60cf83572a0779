#include "engine/nn/layers/layer.h"

#include <nlohmann/json.hpp>

#include "engine/nn/attention/attention.h"
#include "engine/nn/attention/latent_attention.h"
#include "engine/nn/layers/mlp.h"
#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

namespace {

// What a layer computed; `differences` checks it.
struct Passed {
  Floats y, dx, gradients;
  bool operator==(const Passed&) const = default;
};

// What attention keeps of its core, and whether it keeps what the core works on.
struct KeptByAttention {
  const AttentionCore::Saved& core;
  bool inputs;
};
KeptByAttention kept_by(const Mixer::Saved& saved) {
  if (const auto* latent = dynamic_cast<const LatentAttention::Saved*>(&saved))
    return {latent->core, latent->latents && latent->up.queries && latent->up.keys_and_values};
  const auto& attention = dynamic_cast<const Attention::Saved&>(saved);
  return {attention.core, static_cast<bool>(attention.qkv)};
}

// What a layer of that point can drop.
std::vector<Recompute> modes_of(const Point& p) {
  std::vector<Recompute> modes = {Recompute::selective, Recompute::full, {{Region::mlp}}};
  if (p.model.parts().norm_place == NormPlace::post) return modes;
  modes.insert(modes.end(), {{{Region::norm}}, {{Region::norm, Region::mlp, Region::core_attention}}});
  if (p.model.parts().attention_form == AttentionForm::latent)
    modes.insert(modes.end(), {{{Region::mla_up_proj}}, {{Region::mla_up_proj, Region::norm}}});
  return modes;
}

Passed pass(const Point& point, bool differences) {
  ModuleTest t(point);
  const Layer layer(t.store, t.plan, layer_of(t.plan.model, 1), t.plan.recompute[1]);
  t.allocate_parameters();
  const MicroBatch batch = t.batch();
  const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
  Passed passed;
  {
    Layer::Saved saved;
    passed.y = t.get(layer.forward(t.context, batch, x, saved));
    // What each recompute mode keeps.
    CHECK(static_cast<bool>(saved.input) == (point.recompute == Recompute::full));
    CHECK(saved.branches.empty() == (point.recompute == Recompute::full));
    if (!saved.branches.empty()) {
      const KeptByAttention kept = kept_by(*saved.branches[0].mixer);
      CHECK(kept.inputs == !point.recompute.regions.has(Region::mla_up_proj));
      CHECK((kept.core.probs || kept.core.lse) == !point.recompute.regions.has(Region::core_attention));
      CHECK((saved.branches[1].mixer == nullptr) == point.recompute.regions.has(Region::mlp));
    }
    const Tensor dx = layer.backward(t.context, batch, t.copy(weights), saved);
    passed.dx = t.get(dx);
    passed.gradients = t.get(t.store.gradients());
    if (!differences) return passed;
  }
  const auto f = [&] {
    Layer::Saved saved;
    return t.dot(weights, layer.forward(t.context, batch, x, saved));
  };
  t.check_gradient("x", f, x, passed.dx);
  t.check_parameters(f);
  return passed;
}

}  // namespace

TEST_CASE("transformer layer: gradients by differences, and recompute changes no bit") {
  for (Point p : every_graph()) {
    p.recompute = Recompute::none;
    INFO(describe(p));
    const Passed kept = pass(p, true);
    for (const Recompute mode : modes_of(p)) {
      p.recompute = mode;
      INFO(describe(p));
      CHECK(pass(p, false) == kept);
    }
  }
}

// The differences above see no recompute: here with it, for one graph of each family.
TEST_CASE("transformer layer with recompute: gradients by differences") {
  for (const std::string family : {"gpt", "bert", "llama"}) {
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      Point p = ModuleTest::small(family);
      p.recompute = mode;
      INFO(describe(p));
      pass(p, true);
    }
  }
}

// Products apart add up in another order than one of all of them: the gradients are by differences, and what is kept is half.
TEST_CASE("transformer layer that keeps every second product: gradients by differences, and what it keeps") {
  for (Point p : every_graph()) {
    if (p.model.family != "llama") continue;
    for (const std::int64_t kv_heads : {p.model.heads, p.model.heads / 2}) {
      p.model.kv_heads = kv_heads;
      p.recompute = {{Region::alternate_gemms}};
      INFO(describe(p) << ", kv_heads " << kv_heads);
      ModuleTest t(p);
      const Layer layer(t.store, t.plan, layer_of(t.plan.model, 1), t.plan.recompute[1]);
      t.allocate_parameters();
      const MicroBatch batch = t.batch();
      const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
      Layer::Saved saved;
      layer.forward(t.context, batch, x, saved);
      REQUIRE(saved.branches.size() == 2);
      const auto& attention = dynamic_cast<const Attention::Saved&>(*saved.branches[0].mixer);
      const auto& mlp = dynamic_cast<const Mlp::Saved&>(*saved.branches[1].mixer);
      CHECK((saved.input && attention.q && attention.v && attention.proj.x && mlp.gate));
      CHECK_FALSE((attention.qkv || attention.k || attention.qkv_linear.x || attention.output || mlp.up || mlp.fc1.x ||
                   mlp.fc2.x));
      for (const Branch::Saved& branch : saved.branches) CHECK_FALSE((branch.norm.x || branch.norm.rstd));
      const Tensor dx = layer.backward(t.context, batch, t.copy(weights), saved);
      const Floats gradient = t.get(dx);
      const auto f = [&] {
        Layer::Saved again;
        return t.dot(weights, layer.forward(t.context, batch, x, again));
      };
      t.check_gradient("x", f, x, gradient);
      t.check_parameters(f);
    }
  }
}

namespace {

Point normed() {
  Point p = ModuleTest::small("llama");
  ModelParts parts = p.model.parts();
  parts.qk_norm = QkNorm::each_head;
  p.model.own_parts = parts;
  return p;
}

// Heads whose widths all differ.
Point latent(std::int64_t q_rank) {
  Point p = ModuleTest::small("deepseek");
  p.model.heads = 3;
  p.model.q_lora_rank = q_rank, p.model.kv_lora_rank = 5;
  p.model.qk_nope_head_dim = 6, p.model.qk_rope_head_dim = 4, p.model.v_head_dim = 7;
  return p;
}

}  // namespace

TEST_CASE("normed queries and keys, and latent attention: gradients by differences, with recompute too") {
  Point one_group = normed(), biases = latent(9);
  one_group.model.kv_heads = 1;
  biases.model.own_parts = biases.model.parts();
  biases.model.own_parts->bias = true;
  Point scaled = latent(9);
  scaled.model.own_parts = scaled.model.parts();
  scaled.model.own_parts->attention_scale = 0.7;
  for (Point p : {normed(), one_group, latent(9), latent(0), biases, scaled})
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      p.framework = keeps(graph);
      p.attention = graph == Graph::eager ? AttentionKind::core : AttentionKind::flash;
      p.recompute = Recompute::none;
      INFO(describe(p) << ", q_lora_rank " << p.model.q_lora_rank);
      const Passed kept = pass(p, true);
      for (const Recompute mode : modes_of(p)) {
        p.recompute = mode;
        INFO(describe(p));
        CHECK(pass(p, false) == kept);
      }
    }
}

namespace {

Passed pass_alone(const Point& point, std::int64_t layer_index, bool differences) {
  ModuleTest t(point);
  const Layer layer(t.store, t.plan, layer_of(t.plan.model, layer_index),
                    t.plan.recompute[static_cast<std::size_t>(layer_index)]);
  t.allocate_parameters();
  const MicroBatch batch = t.batch();
  const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
  Passed passed;
  {
    Layer::Saved saved;
    passed.y = t.get(layer.forward(t.context, batch, x, saved));
    passed.dx = t.get(layer.backward(t.context, batch, t.copy(weights), saved));
    passed.gradients = t.get(t.store.gradients());
  }
  if (!differences) return passed;
  const auto f = [&] {
    Layer::Saved saved;
    return t.dot(weights, layer.forward(t.context, batch, x, saved));
  };
  t.check_gradient("x", f, x, passed.dx);
  t.check_parameters(f);
  return passed;
}

}  // namespace

// Norms on both sides of a branch or behind it, branches side by side, parts by layer, bent and windowed attention.
TEST_CASE("transformer layer of newer families' parts: gradients by differences, and recompute changes no bit") {
  const auto check = [](const char* family, const std::string& parts, std::vector<Recompute> modes) {
    Point p = ModuleTest::small(family);
    nlohmann::json model = nlohmann::json::parse(write_model(p.model).dump());
    if (model.is_string()) model = {{"preset", model}};
    model.update(nlohmann::json::parse(parts));
    p.model = read_model(model, "model");
    p.attention = AttentionKind::flash;
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      p.framework = keeps(graph);
      p.recompute = Recompute::none;
      for (const std::int64_t layer : {0, 1}) {
        INFO(parts << ", layer " << layer << ", graph " << name_of(graph));
        const Passed kept = pass_alone(p, layer, true);
        for (const Recompute& mode : modes) {
          p.recompute = mode;
          INFO("recompute " << name_of(mode));
          CHECK(pass_alone(p, layer, false) == kept);
        }
        p.recompute = Recompute::none;
      }
    }
  };
  const std::vector<Recompute> plain = {Recompute::selective, Recompute::full, {{Region::mlp}}},
                               all = {Recompute::selective,
                                      Recompute::full,
                                      {{Region::mlp}},
                                      {{Region::norm}},
                                      {{Region::norm, Region::mlp, Region::core_attention}}};
  check("llama", R"({"bias": ["qkv"]})", all);
  for (const char* activation : {"geglu", "geglu_erf", "silu"})
    check("llama", fmt::format(R"({{"activation": "{}", "bias": ["dense"]}})", activation), {});
  check("llama", R"({"activation": "xielu", "qk_norm": true})", all);
  check("gpt", R"({"activation": "xielu", "branches": "parallel"})", plain);
  check("gpt", R"({"norm_beta": false})", all);
  check("gpt", R"({"norm_gamma": false})", all);
  check("llama", R"({"norm_place": "sandwich", "residual_scale": 0.5})", all);
  check("gpt", R"({"norm_place": "sandwich"})", all);
  check("llama", R"({"norm_place": "output", "qk_norm": "all_heads"})", plain);
  for (const char* norm : {"without_weights", "layer_norm", "layer_norm_by_head"})
    check("llama", fmt::format(R"({{"qk_norm": "{}", "attention_chunk": 3}})", norm), plain);
  check("llama", R"({"position": "none", "attention_temperature": {"scale": 0.7, "floor": 2}})", all);
  check("gpt", R"({"branches": "parallel"})", all);
  check("gpt", R"({"branches": "parallel_norms", "residual_scale": 0.5})", all);
  check("llama", R"({"branches": "parallel", "norm_gamma": false})", all);
  check("llama", R"({"window": 3, "attention_softcap": 0.05, "attention_scale": 0.3})", all);
  check("llama", R"({"attention_sinks": true, "layers_of": [{"from": 1, "window": 2}]})", all);
  check("gpt", R"({"position": "alibi"})", all);
  const std::string selective =
      R"("mixer": "mamba", "state_heads": 12, "state_head_dim": 1, "state_groups": 4, "state_dim": 3, "dt_rank": 5, "state_chunk": 4)";
  for (const char* norm : {"none", "without_weights", "rms_norm"})
    check("llama", fmt::format(R"({{"scan_norm": "{}", {}}})", norm, selective), all);
  check("llama", R"({"causal": false, "layers_of": [{"from": 1, "position": "none"}]})", all);
  check("llama", R"({"mixer": "short_conv", "conv_width": 3})", all);
  const std::string states =
      R"("mixer": "mamba2", "state_heads": 4, "state_head_dim": 3, "state_groups": 2, "state_dim": 5, "state_chunk": 4)";
  // Those with norms are too steep for differences: torch_parity_test.cpp has their gradients.
  check("llama",
        fmt::format(R"({{"branches": "parallel_mixers", "state_norm": "none", {}, "multipliers": {{"attention": 0.7,
              "state": 1.5, "feed_forward": 0.6, "gates": 0.8, "state_inputs": [0.5, 2, 0.7, 1.5, 0.4]}}}})",
                    states),
        all);
  check("llama", R"({"mixer": "lightning", "state_chunk": 4})", all);
}

// Parts in combinations that no family has.
TEST_CASE("transformer layer of other parts: gradients by differences") {
  const auto check = [](const std::string& what, auto change) {
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      Point p = ModuleTest::small("llama");
      ModelParts parts = p.model.parts();
      change(p.model, parts);
      p.model.own_parts = parts;
      p.framework = keeps(graph);
      INFO(what << ", graph " << name_of(graph));
      pass(p, true);
    }
  };
  check("biases", [](ModelSpec&, ModelParts& parts) { parts.bias = true; });
  check("squared ReLU, half of a head turned", [](ModelSpec&, ModelParts& parts) {
    parts.activation = Activation::squared_relu;
    parts.rope.fraction = 0.5;
  });
  check("layer norm, GELU without bias", [](ModelSpec&, ModelParts& parts) {
    parts.norm = NormKind::layer_norm;
    parts.activation = Activation::gelu;
  });
  check("norms last, GELU by erf", [](ModelSpec&, ModelParts& parts) {
    parts.norm_place = NormPlace::post;
    parts.activation = Activation::gelu_erf;
  });
  check("one head of keys and values", [](ModelSpec& m, ModelParts&) { m.kv_heads = 1; });
  check("heads wider than hidden / heads", [](ModelSpec& m, ModelParts&) { m.head_size = 6; });
}
