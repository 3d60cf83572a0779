// Products with epilogues against plain sums in double, and their refusals.
#include "engine/ops/epilogue.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

namespace {

double gelu(double z) {
  return 0.5 * z * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (z + 0.044715 * z * z * z)));
}

double slope(double z) {
  return (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5;
}

struct Sizes {
  std::int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {7, 13, 5}, {32, 64, 24}, {19, 1030, 8}, {5, 3, 0}};

// Tensors of one product a [m, k] times b [k, n], and its sums.
struct Operands {
  OpTest test;
  Tensor a, b;
  Values sums;

  Operands(const Sizes& z, DType type)
      : a(test.random({z.m, std::max<std::int64_t>(z.k, 1)}, type, 1)),
        b(test.random({std::max<std::int64_t>(z.k, 1), z.n}, type, 2)),
        sums(static_cast<std::size_t>(z.m * z.n), 0.0) {
    const Values x = OpTest::get(a), y = OpTest::get(b);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t i = 0; i < z.m; ++i)
      for (std::int64_t p = 0; p < z.k; ++p)
        for (std::int64_t j = 0; j < z.n; ++j)
          sums[at(i * z.n + j)] += x[at(i * z.k + p)] * y[at(p * z.n + j)];
  }
  Matmul product(const Sizes& z, const Tensor& c) const {
    return {Matrix(a, z.m, z.k, std::max<std::int64_t>(z.k, 1)), Matrix(b, z.k, z.n, z.n), Matrix(c)};
  }
};

// An op is rounded once more for each that an epilogue is made of.
double twice(DType type) {
  return 2 * epsilon(type);
}

}  // namespace

TEST_CASE("a product adds its bias") {
  for (DType type : kFloatTypes)
    for (const Sizes& z : kSizes) {
      CAPTURE(name_of(type), z.m, z.n, z.k);
      Operands o(z, type);
      const Tensor c = o.test.garbage({z.m, z.n}, type), bias = o.test.random({z.n}, type, 3);
      Matmul op = o.product(z, c);
      op.bias = bias;
      o.test.run(op);
      Values want = o.sums;
      const Values add = OpTest::get(bias);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += add[i % add.size()];
      check_close(OpTest::get(c), want, twice(type), 4 * epsilon(type));
    }
}

TEST_CASE("a product adds its bias, keeps the sum and takes its GELU") {
  for (DType type : kFloatTypes)
    for (const Sizes& z : kSizes)
      for (bool has_bias : {true, false}) {
        CAPTURE(name_of(type), z.m, z.n, z.k, has_bias);
        Operands o(z, type);
        const Shape shape{z.m, z.n};
        const Tensor c = o.test.garbage(shape, type), kept = o.test.garbage(shape, type);
        Matmul op = o.product(z, c);
        op.gelu_input = kept;
        if (has_bias) op.bias = o.test.random({z.n}, type, 3);
        o.test.run(op);
        Values sum = o.sums, active;
        const Values add = has_bias ? OpTest::get(op.bias) : Values(1, 0.0);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] += add[i % add.size()];
          active.push_back(gelu(sum[i]));
        }
        check_close(OpTest::get(kept), sum, twice(type), 4 * epsilon(type));
        check_close(OpTest::get(c), active, 2 * twice(type), 4 * epsilon(type));
      }
}

TEST_CASE("a product takes the gradient of a GELU") {
  for (DType type : kFloatTypes)
    for (const Sizes& z : kSizes) {
      CAPTURE(name_of(type), z.m, z.n, z.k);
      Operands o(z, type);
      const Tensor c = o.test.garbage({z.m, z.n}, type), x = o.test.random({z.m, z.n}, type, 3, -4, 4);
      const Values before = OpTest::get(x);
      Matmul op = o.product(z, c);
      op.gelu_grad_input = x;
      o.test.run(op);
      Values want = o.sums;
      for (std::size_t i = 0; i < want.size(); ++i) want[i] *= slope(before[i]);
      check_close(OpTest::get(c), want, twice(type), 4 * epsilon(type));
      CHECK(OpTest::get(x) == before);
    }
}

TEST_CASE("the product of a weight's gradient adds to the bias's") {
  for (DType type : kFloatTypes)
    for (DType gradients : {DType::f32, type})
      for (const Sizes& z : {Sizes{1, 1, 1}, Sizes{13, 7, 50}, Sizes{64, 24, 333}}) {
        CAPTURE(name_of(type), name_of(gradients), z.m, z.n, z.k);
        OpTest test;
        const Tensor dy = test.random({z.k, z.m}, type, 1), x = test.random({z.k, z.n}, type, 2),
                     dw = test.random({z.m, z.n}, gradients, 3), db = test.random({z.m}, gradients, 4);
        Values want = OpTest::get(db), want_weight = OpTest::get(dw);
        const Values rows = OpTest::get(dy), inputs = OpTest::get(x);
        const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
        for (std::int64_t r = 0; r < z.k; ++r)
          for (std::int64_t i = 0; i < z.m; ++i) {
            want[at(i)] += rows[at(r * z.m + i)];
            for (std::int64_t j = 0; j < z.n; ++j)
              want_weight[at(i * z.n + j)] += rows[at(r * z.m + i)] * inputs[at(r * z.n + j)];
          }
        Matmul op{Matrix(dy).t(), Matrix(x), Matrix(dw)};
        op.beta = 1;
        op.bias_gradient = db;
        test.run(op);
        check_close(OpTest::get(db), want, epsilon(gradients), 2e-5);
        check_close(OpTest::get(dw), want_weight, epsilon(gradients), 2e-5);
      }
}

TEST_CASE("the gradients of a product with bias and GELU are those of differences") {
  const std::int64_t rows = 3, in = 4, out = 5;
  const Values x0 = uniform(rows * in, -1, 1, 1), w0 = uniform(out * in, -1, 1, 2),
               b0 = uniform(out, -1, 1, 3), d0 = uniform(rows * out, -1, 1, 4);
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto f = [&](const Values& x, const Values& w, const Values& b) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t o = 0; o < out; ++o) {
        double z = b[at(o)];
        for (std::int64_t i = 0; i < in; ++i) z += x[at(r * in + i)] * w[at(o * in + i)];
        sum += d0[at(r * out + o)] * gelu(z);
      }
    return sum;
  };
  OpTest test;
  const Tensor x = test.put({rows, in}, DType::f32, x0), w = test.put({out, in}, DType::f32, w0),
               b = test.put({out}, DType::f32, b0), d = test.put({rows, out}, DType::f32, d0);
  const Tensor y = test.garbage({rows, out}), z = test.garbage({rows, out}), dz = test.empty({rows, out}),
               dx = test.garbage({rows, in}), dw = test.put({out, in}, DType::f32, Values(at(out * in), 0.0)),
               db = test.put({out}, DType::f32, Values(at(out), 0.0)), one = test.empty({rows, rows});
  Matmul forward{Matrix(x), Matrix(w).t(), Matrix(y)};
  forward.bias = b, forward.gelu_input = z;
  test.run(forward);
  // d through the GELU, by the product of an identity.
  Values identity(at(rows * rows), 0.0);
  for (std::int64_t r = 0; r < rows; ++r) identity[at(r * rows + r)] = 1;
  test.set(one, identity);
  Matmul through{Matrix(one), Matrix(d), Matrix(dz)};
  through.gelu_grad_input = z;
  test.run(through);
  test.run(Matmul{Matrix(dz), Matrix(w), Matrix(dx)});
  Matmul weight{Matrix(dz).t(), Matrix(x), Matrix(dw)};
  weight.beta = 1, weight.bias_gradient = db;
  test.run(weight);
  check_close(OpTest::get(dx), differences([&](const Values& v) { return f(v, w0, b0); }, x0), 1e-4, 1e-5);
  check_close(OpTest::get(dw), differences([&](const Values& v) { return f(x0, v, b0); }, w0), 1e-4, 1e-5);
  check_close(OpTest::get(db), differences([&](const Values& v) { return f(x0, w0, v); }, b0), 1e-4, 1e-5);
}

TEST_CASE("an epilogue is charged what its ops are, and does not count towards hfu") {
  Operands o({32, 64, 24}, DType::bf16);
  const Tensor c = o.test.empty({32, 64}, DType::bf16), x = o.test.empty({32, 64}, DType::bf16),
               dy = o.test.empty({24, 32}, DType::bf16), bias = o.test.empty({64}, DType::bf16),
               db = o.test.empty({32}, DType::bf16);
  const Cost bare = o.product({32, 64, 24}, c).cost();
  const auto check_cost = [&](const Matmul& op, double extra_bytes) {
    const Cost cost = op.cost();
    CHECK(cost.epilogue == ops::cost_of_epilogue(op).flops);
    CHECK(cost.epilogue > 0);
    CHECK(cost.flops == bare.flops + cost.epilogue);
    CHECK(cost.bytes == bare.bytes + extra_bytes);
    Meter meter;
    meter.charge(cost);
    CHECK(meter.matmul_flops == bare.flops);
    CHECK(meter.flops == cost.flops);
  };
  Matmul op = o.product({32, 64, 24}, c);
  op.bias = bias;
  check_cost(op, 64 * 2);
  op.gelu_input = x;
  check_cost(op, 64 * 2 + 32 * 64 * 2);
  op.bias = {};
  check_cost(op, 32 * 64 * 2);
  op = o.product({32, 64, 24}, c);
  op.gelu_grad_input = x;
  check_cost(op, 32 * 64 * 2);
  op = o.product({32, 64, 24}, c);
  op.a = Matrix(dy).t();
  op.bias_gradient = db;
  check_cost(op, 2 * 32 * 2);
}

TEST_CASE("epilogues that make no sense are refused") {
  OpTest test;
  const Tensor a = test.random({4, 4}, DType::f32, 1), b = test.random({4, 4}, DType::f32, 2),
               c = test.empty({4, 4}), x = test.empty({4, 4}), n = test.empty({4});
  const Matmul fine{Matrix(a), Matrix(b), Matrix(c)};
  const auto refused = [&](auto change) {
    Matmul op = fine;
    op.bias = n;
    REQUIRE_NOTHROW(op.check());
    change(op);
    CHECK_THROWS_AS(op.check(), Error);
  };
  refused([](Matmul& op) { op.beta = 1; });
  refused([](Matmul& op) { op.alpha = 0.5f; });
  refused([&](Matmul& op) { op.gelu_grad_input = x; });
  refused([&](Matmul& op) { op.bias_gradient = n; });  // beside another, and of an a that is not transposed
  refused([&](Matmul& op) { op.bias = {}, op.bias_gradient = n; });
  refused([&](Matmul& op) { op.bias = test.empty({3}); });
  refused([&](Matmul& op) { op.bias = test.empty({4}, DType::bf16); });
  refused([&](Matmul& op) { op.gelu_input = test.empty({4, 3}); });
  refused([&](Matmul& op) {
    op.a = Matrix(a, 2, 2, 2, 0, 4), op.b = Matrix(b, 2, 2, 2, 0, 4), op.c = Matrix(c, 2, 2, 2, 0, 4);
    op.bias = test.empty({2});
    op.batch = 2;
  });
  refused([&](Matmul& op) {
    op.b = Matrix(b, 4, 2, 4), op.c = Matrix(c, 4, 2, 4);
    op.bias = test.empty({2});
  });
}
