#include "engine/ops/cross_entropy.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

double reference(const Values& logits, std::int64_t n, std::int64_t valid, const std::vector<std::int64_t>& targets,
                 const Values& weight, double inv_weight_sum) {
  double loss = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double* x = logits.data() + static_cast<std::int64_t>(r) * n;
    const double top = *std::max_element(x, x + valid);
    double sum = 0;
    for (std::int64_t j = 0; j < valid; ++j) sum += std::exp(x[j] - top);
    loss += (weight.empty() ? 1 : weight[r]) * (std::log(sum) + top - x[targets[r]]);
  }
  return loss * inv_weight_sum;
}

// The steps of one rank, or of several that hold a shard of the columns each.
struct Steps {
  OpTest& test;
  std::int64_t rows;
  std::vector<Tensor> logits;  // shards
  std::vector<std::int64_t> first, valid;
  Tensor targets, weight;
  float inv_weight_sum = 1;
  bool keep_exp = false;

  double run(std::vector<Tensor>* dlogits, float scale) {
    Values top(static_cast<std::size_t>(rows), -INFINITY), sums(top.size(), 0.0), hits(top.size(), 0.0);
    const Tensor max = test.empty({rows}), sum = test.empty({rows}), target = test.empty({rows});
    for (std::size_t i = 0; i < logits.size(); ++i) {
      test.run(ops::RowMax{logits[i], max, valid[i]});
      const Values m = OpTest::get(max);
      for (std::size_t r = 0; r < top.size(); ++r) top[r] = std::max(top[r], m[r]);
    }
    test.set(max, top);
    std::vector<Tensor> exps(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (keep_exp) exps[i] = logits[i].dtype() == DType::f32 ? logits[i] : test.garbage(logits[i].shape());
      test.run(ops::ExpSum{logits[i], max, targets, first[i], valid[i], sum, target, exps[i]});
      const Values s = OpTest::get(sum), t = OpTest::get(target);
      for (std::size_t r = 0; r < top.size(); ++r) sums[r] += s[r], hits[r] += t[r];
    }
    test.set(sum, sums);
    test.set(target, hits);
    const Tensor loss = test.garbage({1});
    test.run(ops::CrossEntropyLoss{sum, target, weight, inv_weight_sum, loss});
    for (std::size_t i = 0; i < logits.size(); ++i) {
      ops::CrossEntropyGrad grad{
          keep_exp ? Tensor() : logits[i], exps[i], max, sum, targets, weight, scale, first[i], valid[i], Tensor()};
      grad.dlogits = dlogits->at(i) ? dlogits->at(i) : grad.source();  // in place
      test.run(grad);
      dlogits->at(i) = grad.dlogits;
    }
    return test.device.read(loss, 0);
  }
};

}  // namespace

TEST_CASE("cross entropy and its gradient agree with the reference and finite differences") {
  const std::vector<std::int64_t> targets{3, 0, 22, 7, 11};
  const std::int64_t n = 26, valid = 23;
  for (bool weighted : {false, true})
    for (bool keep_exp : {false, true})
      for (bool in_place : {false, true}) {
        CAPTURE(weighted, keep_exp, in_place);
        OpTest test;
        const Tensor logits = test.random({5, n}, DType::f32, 1, -4, 4);
        const Values weight = weighted ? Values{1, 0, 0.5, 2, 1} : Values{};
        const Values x = OpTest::get(logits);
        const auto loss_of = [&](const Values& v) { return reference(v, n, valid, targets, weight, 0.2); };
        Steps steps{test, 5, {logits}, {0}, {valid}, test.ids(targets), {}, 0.2f, keep_exp};
        if (weighted) steps.weight = test.put({5}, DType::f32, weight);
        std::vector<Tensor> dlogits{in_place ? Tensor() : test.garbage({5, n})};
        CHECK(steps.run(&dlogits, 0.2f) == Approx(loss_of(x)).epsilon(1e-6));
        const Values want = differences(loss_of, x);  // zero in the padding columns
        check_close(OpTest::get(dlogits[0]), want, 1e-5, 1e-7);
      }
}

TEST_CASE("shards of the vocabulary give the loss and gradient of the whole, some without a valid column") {
  OpTest test;
  const std::vector<std::int64_t> targets{4000, 0, 2999};
  const std::int64_t n = 1500, valid = 4100;  // four shards; the last has no real word
  const Tensor whole = test.random({3, 4 * n}, DType::f32, 1, -6, 6);
  const Values x = OpTest::get(whole);
  Steps steps{test, 3, {}, {}, {}, test.ids(targets), {}};
  for (std::int64_t i = 0; i < 4; ++i) {
    Values part;
    for (std::int64_t r = 0; r < 3; ++r)
      part.insert(part.end(), x.begin() + r * 4 * n + i * n, x.begin() + r * 4 * n + (i + 1) * n);
    steps.logits.push_back(test.put({3, n}, DType::f32, part));
    steps.first.push_back(i * n);
    steps.valid.push_back(std::clamp<std::int64_t>(valid - i * n, 0, n));
  }
  std::vector<Tensor> parts(4), all(1);
  const double loss = steps.run(&parts, 1);
  CHECK(loss == Approx(reference(x, 4 * n, valid, targets, {}, 1)).epsilon(1e-6));
  Steps serial{test, 3, {whole}, {0}, {valid}, test.ids(targets), {}};
  CHECK(serial.run(&all, 1) == Approx(loss).epsilon(1e-6));
  const Values want = OpTest::get(all[0]);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Values got = OpTest::get(parts[static_cast<std::size_t>(i)]);
    for (std::int64_t r = 0; r < 3; ++r)
      check_close({got.begin() + r * n, got.begin() + (r + 1) * n},
                  {want.begin() + r * 4 * n + i * n, want.begin() + r * 4 * n + (i + 1) * n}, 1e-5, 1e-9);
  }
}

TEST_CASE("a NaN among the logits reaches the loss") {
  OpTest test;
  Values x = uniform(2 * 50, -1, 1, 1);
  x[70] = std::nan("");
  Steps steps{test, 2, {test.put({2, 50}, DType::f32, x)}, {0}, {50}, test.ids({1, 2}), {}};
  std::vector<Tensor> dlogits(1);
  CHECK(std::isnan(steps.run(&dlogits, 1)));
}
