#include "engine/ops/layer_norm.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

constexpr float kEps = 1e-5f;

Values reference(const Values& x, const Values& gamma, const Values& beta) {
  const std::size_t n = gamma.size();
  Values y(x.size());
  for (std::size_t r = 0; r < x.size(); r += n) {
    double mean = 0, var = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[r + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) var += (x[r + i] - mean) * (x[r + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      y[r + i] = (x[r + i] - mean) / std::sqrt(var + kEps) * gamma[i] + beta[i];
  }
  return y;
}

}  // namespace

TEST_CASE("layer_norm agrees with the reference") {
  for (DType type : kFloatTypes)
    for (const Shape& shape : {Shape{1, 2}, Shape{3, 5, 7}, Shape{11, 1030}, Shape{40, 256}}) {
      CAPTURE(name_of(type), shape.str());
      OpTest test;
      const std::int64_t n = shape.cols();
      const Tensor x = test.random(shape, type, 1, -3, 5), gamma = test.random({n}, type, 2, 0.5, 1.5),
                   beta = test.random({n}, type, 3), y = test.garbage(shape, type);
      const Tensor mean = test.garbage({shape.rows()}), rstd = test.garbage({shape.rows()});
      test.run(ops::LayerNorm{x, gamma, beta, y, mean, rstd, kEps});
      check_close(OpTest::get(y), reference(OpTest::get(x), OpTest::get(gamma), OpTest::get(beta)),
                  epsilon(type), 1e-5);
    }
}

TEST_CASE("layer_norm of a row with a NaN is NaN") {
  OpTest test;
  Values v = uniform(3 * 40, -1, 1, 1);
  v[45] = std::nan("");
  const Tensor x = test.put({3, 40}, DType::f32, v), one = test.put({40}, DType::f32, Values(40, 1.0));
  const Tensor y = test.empty({3, 40}), s = test.empty({3}), t = test.empty({3});
  test.run(ops::LayerNorm{x, one, one, y, s, t});
  for (std::size_t i = 0; i < 120; ++i) CHECK(std::isnan(OpTest::get(y)[i]) == (i / 40 == 1));
}

TEST_CASE("layer_norm_grad agrees with finite differences") {
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 5, 7}, Shape{70, 5}, Shape{2, 67}}) {
    CAPTURE(shape.str());
    OpTest test;
    const std::int64_t n = shape.cols(), rows = shape.rows();
    const DType f = DType::f32;
    const Tensor x = test.random(shape, f, 1, -2, 2), gamma = test.random({n}, f, 2, 0.5, 1.5),
                 beta = test.random({n}, f, 3), dy = test.random(shape, f, 4),
                 residual = test.random(shape, f, 5);
    const Tensor y = test.empty(shape), mean = test.empty({rows}), rstd = test.empty({rows}),
                 dx = test.garbage(shape);
    const Tensor dgamma = test.random({n}, f, 6), dbeta = test.random({n}, f, 7);
    const Values gx = OpTest::get(x), gg = OpTest::get(gamma), gb = OpTest::get(beta), w = OpTest::get(dy);
    const Values dgamma0 = OpTest::get(dgamma), dbeta0 = OpTest::get(dbeta), by_pass = OpTest::get(residual);
    test.run(ops::LayerNorm{x, gamma, beta, y, mean, rstd, kEps});
    test.run(ops::LayerNormGrad{dy, x, mean, rstd, gamma, residual, dx, dgamma, dbeta});

    Values want = differences([&](const Values& v) { return dot(reference(v, gg, gb), w); }, gx);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += by_pass[i];
    check_close(OpTest::get(dx), want, 2e-4, 2e-4);
    want = differences([&](const Values& v) { return dot(reference(gx, v, gb), w); }, gg);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += dgamma0[i];
    check_close(OpTest::get(dgamma), want, 1e-4, 1e-4);
    want = differences([&](const Values& v) { return dot(reference(gx, gg, v), w); }, gb);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += dbeta0[i];
    check_close(OpTest::get(dbeta), want, 1e-4, 1e-4);
  }
}

TEST_CASE("layer_norm_grad in 16 bits agrees with f32, and writes over dy or the residual") {
  for (DType type : {DType::bf16, DType::f16})
    for (DType sum_type : {DType::f32, type})
      for (int alias = 0; alias < 3; ++alias) {
        CAPTURE(name_of(type), name_of(sum_type), alias);
        OpTest test;
        const Shape shape{50, 77};
        const std::int64_t n = 77, rows = 50;
        const Tensor x = test.random(shape, type, 1, -2, 2), gamma = test.random({n}, type, 2, 0.5, 1.5),
                     dy = test.random(shape, type, 4);
        const Tensor residual = alias == 0 ? Tensor() : test.random(shape, type, 5);
        const Tensor mean = test.empty({rows}), rstd = test.empty({rows});
        const Tensor x32 = test.as_f32(x), g32 = test.as_f32(gamma);
        test.run(ops::LayerNorm{x32, g32, g32, test.empty(shape), mean, rstd, kEps});
        const Tensor zero = test.put({n}, DType::f32, Values(77, 0.0)), zero2 = test.as_f32(zero);
        const Tensor want = test.empty(shape);
        test.run(ops::LayerNormGrad{test.as_f32(dy), x32, mean, rstd, g32, test.as_f32(residual), want, zero,
                                    zero2});

        const Tensor dx = alias == 0 ? test.empty(shape, type) : alias == 1 ? dy : residual;
        const Tensor dgamma = test.put({n}, sum_type, Values(77, 0.0)),
                     dbeta = test.put({n}, sum_type, Values(77, 0.0));
        test.run(ops::LayerNormGrad{dy, x, mean, rstd, gamma, residual, dx, dgamma, dbeta});
        check_close(OpTest::get(dx), OpTest::get(want), epsilon(type), 1e-4);
        check_close(OpTest::get(dgamma), OpTest::get(zero), epsilon(sum_type), 1e-4);
        check_close(OpTest::get(dbeta), OpTest::get(zero2), epsilon(sum_type), 1e-4);
      }
}
