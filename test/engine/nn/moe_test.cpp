#include "engine/nn/moe/moe.h"

#include <cmath>
#include <map>
#include <tuple>

#include "engine/ops/bias_add.h"
#include "strategies/routing.h"
#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

namespace {

MoeSpec mixture_of(const ModuleTest& t) {
  return std::get<MoeSpec>(layer_of(t.plan.model, 1).branches[1].mixer);
}

Tensor through(ModuleTest& t, const Moe& moe, const MicroBatch& batch, const Tensor& x) {
  std::unique_ptr<Mixer::Saved> saved;
  const Tensor y = moe.forward(t.context, batch, t.copy(x), saved);
  if (const Tensor bias = moe.bias()) run(t.context.device, ops::BiasAdd{y, bias, y});  // as the residual sum does
  return y;
}

void check_differences(const Point& point) {
  ModuleTest t(point);
  const Moe moe(t.store, t.plan, mixture_of(t));
  t.allocate_parameters();
  const MicroBatch batch = t.batch();
  const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
  const auto f = [&] { return t.dot(weights, through(t, moe, batch, x)); };
  std::unique_ptr<Mixer::Saved> saved;
  moe.forward(t.context, batch, t.copy(x), saved);
  const Tensor dx = moe.backward(t.context, batch, t.copy(weights), saved);
  t.check_gradient("x", f, x, dx);
  t.check_parameters(f);
}

Point mixture(const std::string& router) {
  Point p = ModuleTest::small("mixtral");
  p.model.shared_experts = 1;
  p.model.expert_ffn = 20;
  p.router = read_router(router, "test");
  return p;
}

}  // namespace

// By position, so that no difference changes the choice.
TEST_CASE("mixture of experts: gradients by differences") {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool normalise : {false, true})
      for (const std::int64_t shared : {0, 2}) {
        Point p = mixture("balanced");
        ModelParts parts = p.model.parts();
        parts.routing.score = score;
        parts.routing.normalise = normalise;
        parts.routing.scale = 1.5;
        p.model.own_parts = parts;
        p.model.shared_experts = shared;
        INFO(name_of(score) << (normalise ? " normalised" : "") << ", shared experts " << shared);
        check_differences(p);
      }
}

// Whole or in parts, before the router, or while tokens travel there or back: with a gate and biases, and without.
TEST_CASE("mixture of experts: the shared expert's gradients by differences whenever it computes, and the same sums") {
  FrameworkSpec in_parts = keeps(Graph::megatron_core);
  in_parts.options["shared_expert_overlap"] = "true";
  for (const bool gated : {false, true}) {
    Point p = mixture("balanced");
    ModelParts parts = p.model.parts();
    parts.bias = gated;
    parts.shared_gate = gated;
    parts.activation = gated ? Activation::gelu : parts.activation;
    p.model.own_parts = parts;
    std::vector<Floats> outputs;
    for (const FrameworkSpec& framework : {keeps(Graph::fused), FrameworkSpec{.preset = "torchtitan", .host = "mbench"},
                                           keeps(Graph::megatron_core), in_parts}) {
      p.framework = framework;
      INFO(name_of(framework) << (gated ? ", gated" : ""));
      check_differences(p);
      ModuleTest t(p);
      const Moe moe(t.store, t.plan, mixture_of(t));
      t.allocate_parameters();
      outputs.push_back(t.get(through(t, moe, t.batch(), t.random({6, 2, 16}))));
      for (std::size_t i = 0; i < outputs[0].size(); ++i)
        CHECK(outputs[0][i] == Approx(outputs.back()[i]).margin(1e-5));
    }
  }
}

// Each expert's biases, the router's and the shared expert's; with and without weights of rows in front of the second product.
TEST_CASE("mixture of experts: gradients of biases by differences, and the same sums") {
  for (const bool gated : {false, true}) {
    Point p = mixture("balanced");
    ModelParts parts = p.model.parts();
    parts.bias = true;
    parts.bias.router = true;
    parts.activation = gated ? Activation::clamped_swiglu : Activation::gelu;
    parts.shared_gate = gated;
    p.model.own_parts = parts;
    std::vector<Floats> outputs;
    for (const Graph graph : {Graph::fused, Graph::megatron_core}) {
      p.framework = keeps(graph);
      INFO(name_of(graph) << (gated ? ", gated" : ""));
      ModuleTest t(p);
      const Moe moe(t.store, t.plan, mixture_of(t));
      t.allocate_parameters();
      std::size_t biases = 0;
      for (const auto& parameter : t.store.all()) biases += parameter->spec.bias ? 1 : 0;
      CHECK(biases == 5);
      check_differences(p);
      const MicroBatch batch = t.batch();
      outputs.push_back(t.get(through(t, moe, batch, t.random({6, 2, 16}))));
    }
    for (std::size_t i = 0; i < outputs[0].size(); ++i) CHECK(outputs[0][i] == Approx(outputs[1][i]).margin(1e-5));
  }
}

TEST_CASE("mixture of experts: weights of inputs, gradients by differences, and other sums than weights of outputs") {
  std::vector<Floats> outputs;
  for (const Weighted weighted : {Weighted::input, Weighted::output})
    for (const Graph graph : {Graph::fused, Graph::megatron_core}) {
      Point p = mixture("balanced");
      ModelParts parts = p.model.parts();
      parts.routing.score = RouterScore::sigmoid;
      parts.routing.weighted = weighted;
      parts.bias = true;
      p.model.own_parts = parts;
      p.framework = keeps(graph);
      INFO(name_of(graph) << ", " << name_of(weighted));
      if (weighted == Weighted::input) check_differences(p);
      ModuleTest t(p);
      const Moe moe(t.store, t.plan, mixture_of(t));
      t.allocate_parameters();
      outputs.push_back(t.get(through(t, moe, t.batch(), t.random({6, 2, 16}))));
    }
  double apart = 0;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    CHECK(outputs[0][i] == Approx(outputs[1][i]).margin(1e-5));
    apart = std::max(apart, std::abs(static_cast<double>(outputs[0][i] - outputs[2][i])));
  }
  CHECK(apart > 1e-3);
}

// An adapter for each expert, and for the shared one: what a weight W + scale B A would make.
TEST_CASE("mixture of experts: adapters, gradients by differences, and the same sums as their product in the weights") {
  Point p = mixture("balanced");
  for (const bool grouped : {true, false}) {
    p.framework = keeps(grouped ? Graph::megatron_core : Graph::eager);
    p.adapter = read_adapter("lora:3,alpha=6", "test");
    INFO(p.framework.preset);
    check_differences(p);
    ModuleTest with(p);
    const Moe moe(with.store, with.plan, mixture_of(with));
    with.allocate_parameters();
    CHECK(with.store.all().size() == 8);  // an A and a B of fc1 and fc2, of the experts and of the shared one
    p.adapter = {};
    ModuleTest without(p);
    const Moe merged(without.store, without.plan, mixture_of(without));
    without.store.close_unit();
    without.store.allocate_and_initialise();
    without.use_all();
    std::map<std::string, const Parameter*> by_name;
    for (const auto& parameter : with.store.all()) by_name[parameter->name()] = parameter.get();
    int found = 0;
    for (const auto& parameter : without.store.all()) {
      const std::string layer = parameter->name().substr(0, parameter->name().rfind('.'));
      if (!by_name.contains(layer + ".lora_a")) continue;
      ++found;
      const Floats a = with.get(by_name[layer + ".lora_a"]->value), b = with.get(by_name[layer + ".lora_b"]->value);
      Floats w = without.get(parameter->value);
      const Shape& s = parameter->local;
      const std::size_t in = static_cast<std::size_t>(s.cols()), rank = 3,
                        out = static_cast<std::size_t>(s[s.rank() - 2]);
      for (std::size_t i = 0; i < w.size(); ++i)
        for (std::size_t r = 0; r < rank; ++r)
          w[i] += 2 * b[i / in * rank + r] * a[(i / in / out * rank + r) * in + i % in];
      without.set(parameter->value, w);
    }
    CHECK(found == 4);
    const Floats x = with.draw(6 * 2 * 16);
    const auto made = [&](ModuleTest& t, const Moe& which) {
      const Tensor input = t.random({6, 2, 16});
      t.set(input, x);
      return t.get(through(t, which, t.batch(), input));
    };
    const Floats one = made(with, moe), other = made(without, merged);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == Approx(other[i]).epsilon(1e-4).margin(1e-5));
  }
}

TEST_CASE(
    "mixture of experts: balanced routing of any number of tokens, also in limited groups: gradients by differences") {
  for (const char* router : {"balanced", "balanced_local"})
    for (const std::int64_t groups : {1, 2, 3}) {
      Point p = mixture(router);
      p.model.experts = groups == 1 ? 5 : 6;  // 12 tokens
      ModelParts parts = p.model.parts();
      parts.routing.groups = groups, parts.routing.chosen_groups = groups == 1 ? 1 : groups - 1;
      p.model.own_parts = parts;
      INFO(router << ", groups " << groups);
      CHECK(strategies::has_equal_shares(p) == (groups > 1));
      check_differences(p);
    }
}

// Megatron-Core: the router's weights go with the rows, and multiply what goes into the second products.
TEST_CASE("mixture of experts: weights within experts, gradients by differences, and the same sums") {
  for (const Activation activation : {Activation::swiglu, Activation::gelu, Activation::squared_relu})
    for (const char* router : {"balanced", "capacity:1"}) {
      Point p = mixture(router);
      ModelParts parts = p.model.parts();
      parts.activation = activation;
      p.model.own_parts = parts;
      p.framework = keeps(Graph::megatron_core);
      INFO(name_of(activation) << ", router " << router);
      if (p.router.routing == Routing::balanced) check_differences(p);  // by position: no difference changes the choice
      const auto outputs = [](const Point& point) {
        ModuleTest t(point);
        const Moe moe(t.store, t.plan, mixture_of(t));
        t.allocate_parameters();
        const MicroBatch batch = t.batch();
        const Tensor x = t.random({6, 2, 16});
        return t.get(through(t, moe, batch, x));
      };
      Point eager = p;
      eager.framework = keeps(Graph::eager);
      const Floats within = outputs(p), after = outputs(eager);
      for (std::size_t i = 0; i < within.size(); ++i) CHECK(within[i] == Approx(after[i]).margin(1e-5));
    }
}

TEST_CASE("mixture of experts: activations that are made again are not kept, and change no bit") {
  for (const Graph graph : {Graph::fused, Graph::megatron_core})
    for (const Activation activation : {Activation::swiglu, Activation::squared_relu})
      for (const char* router : {"balanced", "learned"}) {
        Point p = mixture(router);
        ModelParts parts = p.model.parts();
        parts.activation = activation;
        p.model.own_parts = parts;
        p.framework = keeps(graph);
        INFO(name_of(graph) << ", " << name_of(activation) << ", " << router);
        const auto pass = [&](const Recompute& recompute) {
          p.recompute = recompute;
          ModuleTest t(p);
          const Moe moe(t.store, t.plan, mixture_of(t), t.plan.recompute[1]);
          t.allocate_parameters();
          const MicroBatch batch = t.batch();
          const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
          std::unique_ptr<Mixer::Saved> saved;
          const Floats y = t.get(moe.forward(t.context, batch, t.copy(x), saved));
          const Experts::Saved& kept = dynamic_cast<const Moe::Saved&>(*saved).experts;
          CHECK(kept.wide);
          CHECK(static_cast<bool>(kept.narrow) == (recompute == Recompute::none));
          CHECK(static_cast<bool>(kept.unweighted) ==
                (recompute == Recompute::none && graph == Graph::megatron_core && activation != Activation::swiglu));
          const Floats dx = t.get(moe.backward(t.context, batch, t.copy(weights), saved));
          return std::tuple(y, dx, t.get(t.store.gradients()));
        };
        CHECK(pass({{Region::moe_act}}) == pass(Recompute::none));
      }
}

TEST_CASE("mixture of experts: room for all drops nothing; room for fewer leaves tokens without an expert") {
  const auto run_with = [](const std::string& router) {
    Point p = mixture(router);
    p.model.shared_experts = 0;
    ModuleTest t(p);
    const Moe moe(t.store, t.plan, mixture_of(t));
    t.allocate_parameters();
    const MicroBatch batch = t.batch();
    const Tensor x = t.random({6, 2, 16});
    return t.get(through(t, moe, batch, x));
  };
  const Floats learned = run_with("learned");
  const Floats roomy = run_with("capacity:4");  // 4 experts: each has room for every pair
  for (std::size_t i = 0; i < learned.size(); ++i) CHECK(roomy[i] == Approx(learned[i]).margin(1e-6));
  const Floats tight = run_with("capacity:1");
  double apart = 0;
  for (std::size_t i = 0; i < learned.size(); ++i)
    apart = std::max(apart, static_cast<double>(std::abs(tight[i] - learned[i])));
  CHECK(apart > 1e-3);
}

TEST_CASE("mixture of experts: the load of learned routing is told") {
  ModuleTest t(mixture("learned"));
  const Moe moe(t.store, t.plan, mixture_of(t));
  t.allocate_parameters();
  const MicroBatch batch = t.batch();
  through(t, moe, batch, t.random({6, 2, 16}));
  CHECK(t.context.router_load.count == 1);
  CHECK(t.context.router_load.largest >= 1);
  CHECK(t.context.router_load.largest <= 4);
}

// Without a loss: what is too full is corrected down, step by step.
TEST_CASE("mixture of experts: the correction of scores evens out the loads") {
  const auto imbalance = [](double speed) {
    Point p = mixture("learned");
    ModelParts parts = p.model.parts();
    parts.routing.score = RouterScore::sigmoid;
    parts.routing.correction_speed = speed;
    p.model.own_parts = parts;
    ModuleTest t(p);
    const Moe moe(t.store, t.plan, mixture_of(t));
    t.allocate_parameters();
    const MicroBatch batch = t.batch();
    const Tensor x = t.random({6, 2, 16}, 0, 1);
    for (int step = 0; step < 40; ++step) {
      t.context.router_load = {};
      through(t, moe, batch, x);
      moe.after_step(t.context);
    }
    return t.context.router_load.largest;
  };
  const double free = imbalance(0);
  CHECK(free > 1.4);
  CHECK(imbalance(0.02) < 0.85 * free);
}
