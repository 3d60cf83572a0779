#include "engine/nn/layers/cross_entropy.h"

#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

namespace {

constexpr std::int64_t kRows = 5, kColumns = 12, kWords = 9;  // the last three columns pad the vocabulary

// inv_weight_sum * sum_i weight_i * (log sum_j<words exp(x_ij) - x_i,label), in double.
double reference(const Floats& x, const std::vector<std::int64_t>& labels, const Floats& weights, double inv) {
  double loss = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < kWords; ++j) sum += std::exp(static_cast<double>(x[i * kColumns + j]));
    loss += weights[i] * (std::log(sum) - x[i * kColumns + static_cast<std::size_t>(labels[i])]);
  }
  return loss * inv;
}

}  // namespace

TEST_CASE("cross entropy: loss against its definition, gradient by differences") {
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    for (const bool weighted : {false, true}) {
      for (const bool split : {false, true}) {
        INFO("graph " << name_of(graph) << ", weighted " << weighted << ", split " << split);
        Point point = ModuleTest::small("gpt");
        point.framework = keeps(graph);
        ModuleTest t(point);
        const CrossEntropy cross_entropy(kWords, split ? Spread(Axis::tp, shard(2)) : Spread(), t.plan.mesh);
        const Tensor logits = t.random({kRows, kColumns}, -3, 3), loss = t.put({1}, {0});
        const std::vector<std::int64_t> labels{0, 8, 3, 3, 5};
        const Floats weights = weighted ? Floats{0.5f, 0, 2, 1, 0.25f} : Floats(kRows, 1);
        CrossEntropy::Targets targets;
        targets.labels = t.ids({kRows}, labels);
        if (weighted) targets.weights = t.put({kRows}, weights);
        targets.inv_weight_sum = 0.4f;
        targets.gradient_scale = 3;
        const auto f = [&] {
          CrossEntropy::Saved saved;
          cross_entropy.forward(t.context, t.copy(logits), targets, loss, saved);
          return static_cast<double>(t.get(loss)[0]);
        };
        CHECK(f() == Approx(reference(t.get(logits), labels, weights, 0.4)).epsilon(1e-6));
        CrossEntropy::Saved saved;
        cross_entropy.forward(t.context, t.copy(logits), targets, loss, saved);
        const Tensor dlogits = cross_entropy.backward(t.context, targets, saved);
        CHECK(!saved.exp);
        CHECK(!saved.dlogits);
        const Floats gradient = t.get(dlogits);
        for (std::size_t i = 0; i < kRows; ++i)
          for (std::size_t j = kWords; j < kColumns; ++j) CHECK(gradient[i * kColumns + j] == 0);
        t.check_gradient(
            "logits", [&] { return targets.gradient_scale * f(); }, logits, dlogits);
      }
    }
  }
}
