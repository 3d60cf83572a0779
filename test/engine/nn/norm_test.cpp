#include "engine/nn/layers/norm.h"

#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

// With a residual: y = norm(x) and x itself go on, so dx is the sum of both paths.
TEST_CASE("norm: gradients by differences, with and without a residual") {
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm})
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      for (const bool by_pass : {false, true}) {
        INFO(name_of(kind) << ", graph " << name_of(graph) << ", residual " << by_pass);
        Point point = ModuleTest::small("gpt");
        point.framework = keeps(graph);
        ModuleTest t(point);
        const Norm norm(t.store, t.plan, NormSpec{"norm", kind, 16});
        t.allocate_parameters();
        const Tensor x = t.random({6, 2, 16}), weights = t.random({6, 2, 16});
        const Tensor residual = by_pass ? t.random({6, 2, 16}) : Tensor();
        const auto f = [&] {
          Norm::Saved saved;
          const double through = t.dot(weights, norm.forward(t.context, x, saved));
          return through + (by_pass ? t.dot(residual, x) : 0);
        };
        Norm::Saved saved;
        norm.forward(t.context, x, saved);
        const Tensor dx = norm.backward(t.context, t.copy(weights), residual, saved);
        CHECK(!saved.x);
        t.check_gradient("x", f, x, dx);
        t.check_parameters(f);
      }
    }
}
