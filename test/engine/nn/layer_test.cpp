#include "engine/nn/layer.h"

#include "engine/nn/attention.h"
#include "test/engine/nn/module_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

// What a layer computed; `differences` checks it.
struct Passed {
  Floats y, dx, gradients;
  bool operator==(const Passed&) const = default;
};

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
      const auto& attention = static_cast<const Attention::Saved&>(*saved.branches[0].mixer);
      CHECK(attention.qkv);
      CHECK((attention.core.probs || attention.core.lse) == (point.recompute == Recompute::none));
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
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      p.recompute = mode;
      INFO(describe(p));
      CHECK(pass(p, false) == kept);
    }
  }
}

// The differences above see no recompute: here with it, for one graph of each family.
TEST_CASE("transformer layer with recompute: gradients by differences") {
  for (const std::string family : {"gpt", "bert"}) {
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      Point p = ModuleTest::small(family);
      p.recompute = mode;
      INFO(describe(p));
      pass(p, true);
    }
  }
}
