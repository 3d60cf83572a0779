#include "engine/nn/linear/linear.h"

#include "engine/nn/layers/activation.h"
#include "engine/nn/layers/embedding.h"
#include "engine/nn/state/nf4_weights.h"
#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

TEST_CASE("linear, column and row parallel: gradients by differences") {
  struct Case {
    const char* name;
    Role role;
  };
  for (const Case& c : {Case{"column", Role::column}, Case{"row", Role::row}}) {
    INFO(c.name);
    ModuleTest t(ModuleTest::small("gpt"));
    const Linear linear(t.store, t.plan,
                        LinearSpec{.name = "linear", .in = 5, .out = 7, .role = c.role, .stddev = 0.02f});
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

// With the bias and the GELU that a forward can add, and the gradient of the GELU before it: in the products
// of a fused graph, by ops of their own in an eager one, and the same in both.
TEST_CASE("linear with bias and GELU: gradients by differences, fused and eager alike") {
  Floats results[2];
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    INFO(name_of(graph));
    Point p = ModuleTest::small("gpt");
    p.framework = keeps(graph);
    ModuleTest t(p);
    const Linear first(t.store, t.plan,
                       LinearSpec{.name = "first", .in = 5, .out = 7, .role = Role::column, .stddev = 0.02f}),
        second(t.store, t.plan, LinearSpec{.name = "second", .in = 7, .out = 4, .role = Role::row, .stddev = 0.02f});
    const ActivationFunction activation(Activation::gelu);
    t.allocate_parameters();
    const Tensor x = t.random({6, 2, 5}), weights = t.random({6, 2, 4});
    Linear::Saved saved_first, saved_second;
    ActivationFunction::Saved gelu;
    const auto forward = [&] {
      const Tensor wide = activation.forward(t.context, first, x, saved_first, gelu);
      return second.forward_with_bias(t.context, wide, saved_second);
    };
    const auto f = [&] { return t.dot(weights, forward()); };
    const std::uint64_t launches = t.device->meter().launches;
    Floats& result = results[graph == Graph::fused];
    result = t.get(forward());
    CHECK(gelu.separate_bias == (graph == Graph::eager));
    CHECK(t.device->meter().launches - launches == (graph == Graph::fused ? 2u : 4u));
    const Tensor dwide = activation.backward(t.context, first, second, t.copy(weights), saved_second, gelu);
    CHECK(!gelu.x);
    const Tensor dx = first.backward(t.context, dwide, saved_first);
    CHECK(t.device->meter().launches - launches == (graph == Graph::fused ? 6u : 11u));
    for (const Floats& part : {t.get(dx), t.get(t.store.gradients())})
      result.insert(result.end(), part.begin(), part.end());
    t.check_gradient("x", f, x, dx);
    t.check_parameters(f);
  }
  CHECK(results[0] == results[1]);  // the CPU runs the same ops either way
}

TEST_CASE("the activations that products do not fuse: gradients by differences, with a bias and without") {
  for (const Activation kind : {Activation::swiglu, Activation::squared_relu})
    for (const bool bias : {false, true}) {
      INFO(name_of(kind) << ", bias " << bias);
      ModuleTest t(ModuleTest::small("llama"));
      const std::int64_t wide = kind == Activation::swiglu ? 14 : 7;
      const auto spec = [&](const char* name, std::int64_t in, std::int64_t out, Role role) {
        return LinearSpec{.name = name, .in = in, .out = out, .role = role, .bias = bias, .stddev = 0.02f};
      };
      const Linear first(t.store, t.plan, spec("first", 5, wide, Role::column)),
          second(t.store, t.plan, spec("second", 7, 4, Role::row));
      const ActivationFunction activation(kind);
      t.allocate_parameters();
      const Tensor x = t.random({6, 2, 5}), weights = t.random({6, 2, 4});
      Linear::Saved saved_first, saved_second;
      ActivationFunction::Saved saved;
      const auto forward = [&] {
        return second.forward_with_bias(t.context, activation.forward(t.context, first, x, saved_first, saved),
                                        saved_second);
      };
      const auto f = [&] { return t.dot(weights, forward()); };
      forward();
      const Tensor dwide = activation.backward(t.context, first, second, t.copy(weights), saved_second, saved);
      CHECK(!saved.x);
      const Tensor dx = first.backward(t.context, dwide, saved_first);
      t.check_gradient("x", f, x, dx);
      t.check_parameters(f);
    }
}

TEST_CASE("linear on a weight that lives elsewhere has no bias") {
  ModuleTest t(ModuleTest::small("gpt"));
  Parameter* table = add_word_table(t.store, t.plan, {"table", 7, 5, Role::vocabulary, 0.02f});
  const Linear linear(t.store, t.plan,
                      LinearSpec{.name = "head", .in = 5, .out = 7, .role = Role::column, .bias = false, .tied = true},
                      table);
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

// Against a quantiser that looks at all 16 values for each weight; and the gradients that go through the dequantised weight.
TEST_CASE("linear on a base in 4 bits: its weights against a quantiser written out, gradients by differences") {
  for (const char* base : {"nf4", "nf4-double"}) {
    INFO(base);
    Point p = ModuleTest::small("gpt");
    p.model.hidden = 64, p.model.ffn = 128;
    const auto made = [&](const std::string& adapter, auto&& look) {
      p.adapter = read_adapter(adapter, "test");
      ModuleTest t(p);
      Linear linear(t.store, t.plan,
                    LinearSpec{.name = "layers.0.fc1", .in = 64, .out = 24, .role = Role::column, .stddev = 0.3f});
      linear.in_layer(t.store, t.plan);
      t.allocate_parameters();
      look(t, linear);
    };
    Floats whole, kept;
    made("lora:2", [&](ModuleTest& t, const Linear&) { whole = t.get(t.store.frozen().all()[0]->value); });
    made(std::string("lora:2,base=") + base, [&](ModuleTest& t, const Linear& linear) {
      kept = t.get(t.store.nf4().dequantised(t.context, *t.store.frozen().all()[0]));
      const Tensor x = t.random({6, 2, 64}), weights = t.random({6, 2, 24});
      const auto f = [&] {
        Linear::Saved saved;
        return t.dot(weights, linear.forward(t.context, x, saved));
      };
      Linear::Saved saved;
      linear.forward(t.context, x, saved);
      const Tensor dx = linear.backward(t.context, t.copy(weights), saved);
      t.check_gradient("x", f, x, dx);
      t.check_parameters(f);
    });
    REQUIRE(whole.size() == 24 * 64);
    REQUIRE(kept.size() == whole.size());
    float mean = 0, most = 0;
    Floats scales;
    for (std::size_t row = 0; row < 24; ++row) {
      float scale = 0;
      for (std::size_t i = 0; i < 64; ++i) scale = std::max(scale, std::fabs(whole[row * 64 + i]));
      scales.push_back(scale);
      mean += scale / 24;
    }
    for (const float scale : scales) most = std::max(most, std::fabs(scale - mean));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const float scale = scales[i / 64];
      float nearest = 0;
      for (int code = 0; code < 16; ++code)
        if (std::fabs(ops::nf4_value(code) * scale - whole[i]) < std::fabs(nearest - whole[i]))
          nearest = ops::nf4_value(code) * scale;
      // A scale in 8 bits is off by less than the widest step of its map, 1 / 142 of the largest.
      const float off = std::string(base) == "nf4" ? 1e-6f : std::fabs(nearest / scale) * most / 142 + 1e-6f;
      CHECK(std::fabs(kept[i] - nearest) <= off);
    }
  }
}
