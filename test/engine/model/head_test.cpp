// The ends of the models, from the last layer's output to the loss, by differences.
#include "engine/model/head.h"

#include "engine/nn/embedding.h"
#include "test/engine/nn/module_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

void check_head(Family family, Graph graph, bool tied) {
  INFO(name_of(family) << ", graph " << name_of(graph) << ", tied " << tied);
  Point point = ModuleTest::small(family);
  point.graph = graph;
  ModuleTest t(point);
  Parameter* word = tied ? t.store.add(word_table(t.plan, true)) : nullptr;
  const auto head = (family == Family::gpt ? make_gpt_head : make_bert_head)(t.store, t.plan, word);
  t.allocate_parameters();
  // A copy of a tied table is made only where there is none, and it is not counted twice.
  std::size_t tables = 0;
  for (const auto& p : t.store.all()) tables += p->name == "embedding.word";
  CHECK(tables == 1);
  CHECK(t.store.find("embedding.word")->counted == tied);

  MicroBatch batch = t.batch();
  batch.gradient_scale = 8;
  const Tensor x = t.random({6, 2, 16});
  const auto f = [&] {
    Head::Saved saved;
    head->forward(t.context, batch, x, saved);
    return batch.gradient_scale * static_cast<double>(t.get(batch.loss)[0]);
  };
  Head::Saved saved;
  head->forward(t.context, batch, x, saved);
  const Tensor dx = head->backward(t.context, batch, saved);
  t.check_gradient("x", f, x, dx);
  t.check_parameters(f);
}

}  // namespace

TEST_CASE("heads of GPT and BERT: gradients by differences") {
  for (const Family family : {Family::gpt, Family::bert})
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const bool tied : {false, true}) check_head(family, graph, tied);
}
