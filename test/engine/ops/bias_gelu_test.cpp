#include "engine/ops/bias_gelu.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

double gelu(double z) {
  return 0.5 * z * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (z + 0.044715 * z * z * z)));
}

double slope(double z) {
  return (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5;
}

Values sum_with_bias(const Tensor& x, const Tensor& bias) {
  Values z = OpTest::get(x);
  if (!bias) return z;
  const Values b = OpTest::get(bias);
  for (std::size_t i = 0; i < z.size(); ++i) z[i] += b[i % b.size()];
  return z;
}

}  // namespace

TEST_CASE("bias_gelu and its gradient agree with the reference, with and without bias") {
  for (DType type : kFloatTypes)
    for (bool has_bias : {false, true})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{9, 2050}}) {
        CAPTURE(name_of(type), has_bias, shape.str());
        OpTest test;
        const Tensor x = test.random(shape, type, 1, -6, 6), dy = test.random(shape, type, 2);
        const Tensor bias = has_bias ? test.random({shape.cols()}, type, 3) : Tensor();
        const Tensor y = test.garbage(shape, type), dx = test.garbage(shape, type);
        const Values z = sum_with_bias(x, bias), d = OpTest::get(dy);
        Values want(z.size()), want_grad(z.size());
        for (std::size_t i = 0; i < z.size(); ++i) {
          want[i] = gelu(z[i]);
          want_grad[i] = d[i] * slope(z[i]);
        }
        test.run(ops::BiasGelu{x, bias, y});
        check_close(OpTest::get(y), want, epsilon(type), 1e-6);
        // The same, the sum kept beside it and in the place of x.
        const Values plain = OpTest::get(y);
        const Tensor sum = test.garbage(shape, type), in_place = test.put(shape, type, OpTest::get(x));
        test.run(ops::BiasGelu{x, bias, y, sum});
        CHECK(OpTest::get(y) == plain);
        check_close(OpTest::get(sum), z, epsilon(type), 0);
        test.run(ops::BiasGelu{in_place, bias, y, in_place});
        CHECK(OpTest::get(y) == plain);
        CHECK(OpTest::get(in_place) == OpTest::get(sum));
        test.run(ops::BiasGeluGrad{dy, x, bias, dx});
        check_close(OpTest::get(dx), want_grad, epsilon(type), 2e-6);
        test.run(ops::BiasGeluGrad{dy, x, bias, dy});
        CHECK(OpTest::get(dy) == OpTest::get(dx));
      }
}

TEST_CASE("bias_gelu at the ends of its range") {
  OpTest test;
  const double inf = INFINITY;
  const Tensor x = test.put({1, 6}, DType::f32, {-1e4, -30, 30, 1e4, inf, std::nan("")}),
               y = test.empty({1, 6});
  test.run(ops::BiasGelu{x, Tensor(), y});
  check_close(OpTest::get(y), {0, 0, 30, 1e4, inf, std::nan("")}, 1e-6, 0);
  const Tensor one = test.put({1, 6}, DType::f32, Values(6, 1.0));
  test.run(ops::BiasGeluGrad{one, x, Tensor(), y});
  const Values slope_at = OpTest::get(y);
  check_close({slope_at.begin(), slope_at.begin() + 4}, {0, 0, 1, 1}, 1e-6, 0);
  CHECK(std::isnan(slope_at[5]));
}
