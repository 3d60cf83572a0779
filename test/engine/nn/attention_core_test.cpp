#include "engine/nn/attention/attention_core.h"

#include "engine/point/statistics.h"
#include "test/engine/nn/module_test.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

namespace {

constexpr std::uint32_t kSite = 11;

// Of the packed [seq, batch, heads, 3 * head_dim] of these tests: 2 heads of 8.
AttentionParts parts_of(const Tensor& qkv) {
  const auto part = [&](std::int64_t i) { return ops::Matrix(qkv, 6, 8, 2 * 2 * 24, i * 8, 24); };
  return {part(0), part(1), part(2)};
}

AttentionSizes sizes(const Plan& plan) {
  return {6, 2, 2, 2, 0, 8, 8, plan.model.parts().causal};
}

// Runs the core's backward; the gradient of the packed tensor.
Tensor run_backward(ModuleTest& t, const AttentionCore& core, const MicroBatch& batch, const Tensor& dcontext,
                    const Tensor& qkv, AttentionCore::Saved& saved) {
  const Tensor dqkv = t.context.activation(qkv.shape(), "qkv gradient");
  core.backward(t.context, batch, kSite, sizes(t.plan), dcontext, parts_of(qkv), parts_of(dqkv), saved);
  return dqkv;
}

struct Passed {
  Floats context, dqkv;
};

Passed pass(const Point& point) {
  ModuleTest t(point);
  const auto core = make_attention_core(t.plan);
  const MicroBatch batch = t.batch();
  const Tensor qkv = t.random({6, 2, 2, 24}), weights = t.random({6, 2, 16});
  const auto f = [&] {
    AttentionCore::Saved saved;
    return t.dot(weights, core->forward(t.context, batch, kSite, sizes(t.plan), parts_of(qkv), saved));
  };
  AttentionCore::Saved saved;
  Passed passed;
  passed.context = t.get(core->forward(t.context, batch, kSite, sizes(t.plan), parts_of(qkv), saved));
  const Tensor dqkv = run_backward(t, *core, batch, t.copy(weights), qkv, saved);
  passed.dqkv = t.get(dqkv);
  CHECK(!saved.probs);
  CHECK(!saved.context);
  t.check_gradient("qkv", f, qkv, dqkv);
  return passed;
}

void check_equal(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
  CHECK(worst <= 2e-6);
}

}  // namespace

TEST_CASE("attention cores: gradients by differences, and all cores compute the same") {
  for (const std::string family : {"gpt", "bert"}) {
    for (const double dropout : {0.0, 0.25}) {
      std::vector<Passed> all;
      for (const Point& p : every_graph()) {
        if (p.model.family != family || p.dropout != dropout) continue;
        INFO(describe(p));
        all.push_back(pass(p));
        check_equal(all.back().context, all.front().context);
        check_equal(all.back().dqkv, all.front().dqkv);
      }
      CHECK(all.size() == 4);
    }
  }
}

TEST_CASE("a hidden key has no say and no gradient") {
  for (const Point& p : every_graph()) {
    INFO(describe(p));
    ModuleTest t(p);
    const auto core = make_attention_core(t.plan);
    const MicroBatch batch = t.batch();  // BERT: the last position of sample 1 is padding
    const Tensor qkv = t.random({6, 2, 2, 24});
    // Only position 2 of sample 1 is asked for: of its keys, GPT sees 0 to 2, BERT 0 to 4.
    Floats ask(6 * 2 * 16, 0);
    for (std::size_t i = 0; i < 16; ++i) ask[(2 * 2 + 1) * 16 + i] = 1;
    AttentionCore::Saved saved;
    core->forward(t.context, batch, kSite, sizes(t.plan), parts_of(qkv), saved);
    const Floats dqkv = t.get(run_backward(t, *core, batch, t.put({6, 2, 16}, ask), qkv, saved));
    const std::size_t first_hidden = p.model.parts().causal ? 3 : 5;
    double seen = 0;
    for (std::size_t s = 0; s < 6; ++s)
      for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < 48; ++i) {
          const float g = dqkv[(s * 2 + b) * 48 + i];
          if (b == 0 || s >= first_hidden)
            CHECK(g == 0);
          else
            seen += std::fabs(g);
        }
    CHECK(seen > 0.1);
  }
}
