#include "engine/nn/layers/embedding.h"

#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

TEST_CASE("input embedding: gradients of its tables by differences") {
  for (const std::string family : {"gpt", "bert"}) {
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      for (const double dropout : {0.0, 0.25}) {
        INFO(family << ", graph " << name_of(graph) << ", dropout " << dropout);
        Point point = ModuleTest::small(family);
        point.framework = keeps(graph);
        point.dropout = dropout;
        ModuleTest t(point);
        const InputEmbedding embedding(t.store, t.plan, embedding_of(t.plan.model, t.plan.vocab));
        t.allocate_parameters();
        CHECK(t.store.all().size() == (family == "bert" ? 3 : 2));
        CHECK(embedding.word()->spec.shape == Shape{128, 16});
        const MicroBatch batch = t.batch();
        const Tensor weights = t.random({6, 2, 16});
        const auto f = [&] {
          InputEmbedding::Saved saved;
          return t.dot(weights, embedding.forward(t.context, batch, saved));
        };
        InputEmbedding::Saved saved;
        embedding.forward(t.context, batch, saved);
        embedding.backward(t.context, batch, t.copy(weights), saved);
        CHECK(!saved.mask);
        t.check_parameters(f);
      }
    }
  }
}
