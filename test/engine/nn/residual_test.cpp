#include "engine/nn/layers/residual.h"

#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

TEST_CASE("residual dropout: gradients by differences") {
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    for (const double dropout : {0.0, 0.25}) {
      INFO("graph " << name_of(graph) << ", dropout " << dropout);
      Point point = ModuleTest::small("gpt");
      point.framework = keeps(graph);
      point.dropout = dropout;
      ModuleTest t(point);
      const ResidualDropout residual_dropout("somewhere");
      const MicroBatch batch = t.batch();
      const Tensor branch = t.random({6, 2, 16}), bias = t.random({16}), x = t.random({6, 2, 16}),
                   weights = t.random({6, 2, 16});
      const auto f = [&] {
        ResidualDropout::Saved saved;
        return t.dot(weights, residual_dropout.forward(t.context, batch, branch, bias, x, saved));
      };
      ResidualDropout::Saved saved;
      residual_dropout.forward(t.context, batch, branch, bias, x, saved);
      CHECK(static_cast<bool>(saved.mask) == (graph == Graph::eager && dropout > 0));
      const Tensor dbranch = residual_dropout.backward(t.context, batch, t.copy(weights), saved);
      t.check_gradient("branch", f, branch, dbranch);
      t.check_gradient("residual", f, x, weights);
      const Tensor dbias = t.put({16}, Floats(16, 0));
      run(*t.device, ops::BiasGrad{dbranch, dbias});
      t.check_gradient("bias", f, bias, dbias);
    }
  }
}

TEST_CASE("a residual's mask is that of its site, step and samples") {
  ModuleTest t(ModuleTest::small("gpt"));
  const Tensor zero = t.put({6, 2, 16}, Floats(192, 0)), one = t.put({6, 2, 16}, Floats(192, 1));
  const auto mask = [&](const char* site, std::int64_t step, std::int64_t sample0) {
    MicroBatch batch = t.batch();
    batch.sample0 = sample0;
    t.context.step = step;
    ResidualDropout::Saved saved;
    return t.get(ResidualDropout(site).forward(t.context, batch, one, Tensor(), zero, saved));
  };
  const Floats first = mask("a", 3, 4);
  CHECK(first == mask("a", 3, 4));
  CHECK(first != mask("b", 3, 4));
  CHECK(first != mask("a", 4, 4));
  CHECK(first != mask("a", 3, 6));
  // Sample 5 has the same mask wherever it stands in a micro batch.
  const Floats later = mask("a", 3, 5);
  for (std::size_t s = 0; s < 6; ++s)
    for (std::size_t w = 0; w < 16; ++w) CHECK(later[(s * 2 + 0) * 16 + w] == first[(s * 2 + 1) * 16 + w]);
}
