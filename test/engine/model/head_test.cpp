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

void check_gradients(ModuleTest& t, const Head& head) {
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

void check_labels(const std::string& family, Graph graph, double dropout) {
  INFO(family << ", graph " << name_of(graph) << ", dropout " << dropout);
  Point point = ModuleTest::small(family);
  point.framework = keeps(graph);
  point.model.labels = 3;
  point.dropout = dropout;
  ModuleTest t(point);
  const Head head(t.store, t.plan, head_of(t.plan.model, t.plan.vocab), nullptr);
  t.allocate_parameters();
  std::vector<std::string> names;
  for (const auto& p : t.store.all()) names.push_back(p->name());
  using Names = std::vector<std::string>;
  CHECK(names == (family == "bert" ? Names{"final_norm.gamma", "final_norm.beta", "pooler.weight", "pooler.bias",
                                           "classifier.weight", "classifier.bias"}
                                   : Names{"final_norm.gamma", "final_norm.beta", "classifier.weight"}));
  check_gradients(t, head);
}

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
  check_gradients(t, head);
}

}  // namespace

TEST_CASE("heads that label samples, of GPT and BERT: gradients by differences") {
  for (const std::string family : {"gpt", "bert"})
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const double dropout : {0.0, 0.4}) check_labels(family, graph, dropout);
}

TEST_CASE("heads of GPT and BERT: gradients by differences") {
  for (const std::string family : {"gpt", "bert"})
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const bool tied : {false, true}) check_head(family, graph, tied);
}
