#include "engine/nn/linear.h"

#include "test/engine/nn/module_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("linear, column and row parallel: gradients by differences") {
  struct Case {
    const char* name;
    LinearPlan LayerPlan::*plan;
  };
  for (const Case& c : {Case{"column", &LayerPlan::qkv}, Case{"row", &LayerPlan::proj}}) {
    INFO(c.name);
    ModuleTest t(ModuleTest::small(Family::gpt));
    const Linear linear(t.store, t.plan, "linear", {5, 7}, t.plan.layer.*c.plan, 0.02f);
    t.allocate_parameters();
    const Tensor x = t.random({6, 2, 5}), weights = t.random({6, 2, 7});
    // The bias, which forward leaves to whoever comes next, belongs to the output that backward is asked
    // about.
    const auto f = [&] {
      Linear::Saved saved;
      const Tensor y = linear.forward(t.context, x, saved);
      run(*t.device, ops::BiasAdd{y, linear.bias(), y});
      return t.dot(weights, y);
    };
    Linear::Saved saved;
    linear.forward(t.context, x, saved);
    const Tensor dx = linear.backward(t.context, t.copy(weights), saved);
    CHECK(!saved.x);
    t.check_gradient("x", f, x, dx);
    t.check_parameters(f);
  }
}

TEST_CASE("linear on a weight that lives elsewhere has no bias") {
  ModuleTest t(ModuleTest::small(Family::gpt));
  Parameter declared;
  declared.name = "table";
  declared.shape = {7, 5};
  declared.placement = shard(0);
  declared.stddev = 0.02f;
  Parameter* table = t.store.add(declared);
  const Linear linear(t.plan, table, t.plan.logits);
  t.allocate_parameters();
  REQUIRE(t.store.all().size() == 1);
  const Tensor x = t.random({6, 2, 5}), weights = t.random({6, 2, 7});
  const auto f = [&] {
    Linear::Saved saved;
    return t.dot(weights, linear.forward(t.context, x, saved));
  };
  Linear::Saved saved;
  linear.forward(t.context, x, saved);
  t.check_gradient("x", f, x, linear.backward(t.context, t.copy(weights), saved));
  t.check_parameters(f);
}
