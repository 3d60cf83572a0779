// The ends of the models, from the last layer's output to the loss, by differences.
#include "engine/model/head.h"

#include "engine/nn/layers/embedding.h"
#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::model;
using namespace mbench::nn;
using namespace mbench::test;

namespace {

void check_head(const std::string& family, Graph graph, bool tied) {
  INFO(family << ", graph " << name_of(graph) << ", tied " << tied);
  Point point = ModuleTest::small(family);
  point.framework = keeps(graph);
  ModuleTest t(point);
  const TableSpec table = embedding_of(t.plan.model, t.plan.vocab).word;
  Parameter* word = tied ? add_word_table(t.store, t.plan, table) : nullptr;
  const Head head(t.store, t.plan, head_of(t.plan.model, t.plan.vocab), word);
  t.allocate_parameters();
  // A copy of a tied table is made only where there is none, and it is not counted twice.
  std::size_t tables = 0;
  for (const auto& p : t.store.all()) {
    if (p->name() != "embedding.word") continue;
    ++tables;
    CHECK(p->counted == tied);
  }
  CHECK(tables == 1);

  MicroBatch batch = t.batch();
  batch.gradient_scale = 8;
  const Tensor x = t.random({6, 2, 16});
  const auto f = [&] {
    Head::Saved saved;
    head.forward(t.context, batch, x, saved);
    return batch.gradient_scale * static_cast<double>(t.get(batch.loss)[0]);
  };
  Head::Saved saved;
  head.forward(t.context, batch, x, saved);
  const Tensor dx = head.backward(t.context, batch, Tensor(), saved);
  t.check_gradient("x", f, x, dx);
  t.check_parameters(f);
}

}  // namespace

TEST_CASE("heads of GPT and BERT: gradients by differences") {
  for (const std::string family : {"gpt", "bert"})
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const bool tied : {false, true}) check_head(family, graph, tied);
}
