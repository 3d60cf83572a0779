#include "engine/ops/softmax.h"

#include "engine/ops/attention_mask.h"
#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

using Hidden = std::function<bool(std::int64_t b, std::int64_t q, std::int64_t k)>;

Values reference(const Values& scores, const Shape& s, double scale, const Hidden& hidden) {
  Values probs(scores.size(), 0.0);
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const std::int64_t b = row / s[2] / s[1], q = row % s[2];
    const double* x = scores.data() + row * s[3];
    double top = -INFINITY, sum = 0;
    for (std::int64_t k = 0; k < s[3]; ++k)
      if (!hidden(b, q, k)) top = std::max(top, scale * x[k]);
    for (std::int64_t k = 0; k < s[3]; ++k)
      if (!hidden(b, q, k)) sum += std::exp(scale * x[k] - top);
    for (std::int64_t k = 0; k < s[3]; ++k)
      if (!hidden(b, q, k))
        probs[static_cast<std::size_t>(row * s[3] + k)] = std::exp(scale * x[k] - top) / sum;
  }
  return probs;
}

}  // namespace

TEST_CASE("attention_mask hides later keys, or those that are padding") {
  OpTest test;
  const Tensor causal = test.empty({1, 5, 5}, DType::u8);
  test.run(ops::AttentionMask{Tensor(), causal});
  for (std::size_t i = 0; i < 25; ++i) CHECK(OpTest::get(causal)[i] == (i % 5 > i / 5 ? 1 : 0));
  const Tensor keep = test.bytes({2, 3}, {1, 1, 0, 1, 0, 0}), padding = test.empty({2, 3, 3}, DType::u8);
  test.run(ops::AttentionMask{keep, padding});
  CHECK(OpTest::get(padding) == Values{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
}

TEST_CASE("softmax agrees with the reference under every mask, in place too") {
  const Shape shape{2, 3, 37, 37};
  std::vector<std::uint8_t> keep_bytes(2 * 37), mask_bytes(2 * 37 * 37);
  for (std::size_t i = 0; i < keep_bytes.size(); ++i) keep_bytes[i] = i % 5 != 0;
  for (std::size_t i = 0; i < mask_bytes.size(); ++i)
    mask_bytes[i] = i % 3 == 0 || i / 37 == 4;  // row 4: all hidden
  for (DType type : kFloatTypes)
    for (int mode = 0; mode < 6; ++mode) {
      CAPTURE(name_of(type), mode);
      OpTest test;
      const Tensor scores = test.random(shape, type, 1, -8, 8), probs = test.garbage(shape, type);
      ops::Softmax op{scores, probs, 0.7f, false, {}, {}};
      op.causal = mode == 1 || mode == 4;
      if (mode == 2 || mode == 4) op.keep = test.bytes({2, 37}, keep_bytes);
      if (mode == 3) op.mask = test.bytes({2, 37, 37}, mask_bytes);
      if (mode == 5) op.mask = test.bytes({1, 37, 37}, {mask_bytes.begin(), mask_bytes.begin() + 37 * 37});
      const Hidden hidden = [&](std::int64_t b, std::int64_t q, std::int64_t k) {
        return (op.causal && k > q) || (op.keep && keep_bytes[static_cast<std::size_t>(b * 37 + k)] == 0) ||
               (mode == 3 && mask_bytes[static_cast<std::size_t>((b * 37 + q) * 37 + k)] != 0) ||
               (mode == 5 && mask_bytes[static_cast<std::size_t>(q * 37 + k)] != 0);
      };
      const Values want = reference(OpTest::get(scores), shape, op.scale, hidden);
      test.run(op);
      check_close(OpTest::get(probs), want, 2 * epsilon(type), 1e-7);
      op.probs = scores;
      test.run(op);
      CHECK(OpTest::get(scores) == OpTest::get(probs));
    }
}

TEST_CASE("softmax keeps NaN, does not overflow, and gives zeros where every key is hidden") {
  OpTest test;
  const double inf = INFINITY, nan = std::nan("");
  const Tensor scores = test.put({1, 1, 4, 4}, DType::f32,
                                 {1e30, 1e30, -1e30, 0, nan, 1, 2, 3,  //
                                  -inf, 0, 0, -inf, nan, nan, nan, nan});
  const Tensor probs = test.empty({1, 1, 4, 4});
  test.run(ops::Softmax{scores, probs, 1, false, {}, {}});
  check_close(OpTest::get(probs), {0.5, 0.5, 0, 0, nan, nan, nan, nan, 0, 0.5, 0.5, 0, nan, nan, nan, nan},
              1e-6, 0);
  ops::Softmax op{scores, probs, 1, false, {}, {}};
  op.keep = test.bytes({1, 4}, {0, 0, 0, 0});
  test.run(op);
  CHECK(OpTest::get(probs) == Values(16, 0.0));
}

TEST_CASE("softmax_grad agrees with finite differences, in place too") {
  for (bool causal : {false, true}) {
    CAPTURE(causal);
    OpTest test;
    const Shape shape{1, 2, 9, 9};
    const Tensor scores = test.random(shape, DType::f32, 1, -2, 2),
                 dprobs = test.random(shape, DType::f32, 2);
    const Tensor probs = test.empty(shape), dscores = test.garbage(shape);
    const Values w = OpTest::get(dprobs);
    ops::Softmax op{scores, probs, 0.6f, causal, {}, {}};
    test.run(op);
    test.run(ops::SoftmaxGrad{dprobs, probs, dscores, 0.6f, causal});
    const Hidden hidden = [&](std::int64_t, std::int64_t q, std::int64_t k) { return causal && k > q; };
    const Values want = differences(
        [&](const Values& x) { return dot(reference(x, shape, 0.6f, hidden), w); }, OpTest::get(scores));
    check_close(OpTest::get(dscores), want, 1e-5, 1e-6);
    test.run(ops::SoftmaxGrad{dprobs, probs, dprobs, 0.6f, causal});
    CHECK(OpTest::get(dprobs) == OpTest::get(dscores));
  }
}

TEST_CASE("softmax_grad in 16 bits agrees with f32") {
  for (DType type : {DType::bf16, DType::f16}) {
    OpTest test;
    const Shape shape{2, 2, 21, 21};
    const Tensor dprobs = test.random(shape, type, 1), probs = test.random(shape, type, 2, 0, 0.1);
    const Tensor dscores = test.garbage(shape, type), want = test.empty(shape);
    test.run(ops::SoftmaxGrad{dprobs, probs, dscores, 0.5f, true});
    test.run(ops::SoftmaxGrad{test.as_f32(dprobs), test.as_f32(probs), want, 0.5f, true});
    check_close(OpTest::get(dscores), OpTest::get(want), epsilon(type), 1e-6);
  }
}
