// What epilogues of products cost, and which are refused.
#include "engine/ops/epilogue.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

namespace {

struct Sizes {
  std::int64_t m, n, k;
};

// Tensors of one product a [m, k] times b [k, n].
struct Operands {
  OpTest test;
  Tensor a, b;

  Operands(const Sizes& z, DType type) : a(test.random({z.m, z.k}, type, 1)), b(test.random({z.k, z.n}, type, 2)) {}
  Matmul gemm(const Tensor& c) const { return {Matrix(a), Matrix(b), Matrix(c)}; }
};

}  // namespace

TEST_CASE("an epilogue is charged what its ops are, and does not count towards hfu") {
  Operands o({32, 64, 24}, DType::bf16);
  const Tensor c = o.test.empty({32, 64}, DType::bf16), x = o.test.empty({32, 64}, DType::bf16),
               dy = o.test.empty({24, 32}, DType::bf16), bias = o.test.empty({64}, DType::bf16),
               db = o.test.empty({32}, DType::bf16);
  const Cost bare = o.gemm(c).cost();
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
  Matmul op = o.gemm(c);
  op.bias = bias;
  check_cost(op, 64 * 2);
  op.gelu_input = x;
  check_cost(op, 64 * 2 + 32 * 64 * 2);
  op.bias = {};
  check_cost(op, 32 * 64 * 2);
  op = o.gemm(c);
  op.gelu_grad_input = x;
  check_cost(op, 32 * 64 * 2);
  op = o.gemm(c);
  op.a = Matrix(dy).t();
  op.bias_gradient = db;
  check_cost(op, 2 * 32 * 2);
}

TEST_CASE("epilogues that make no sense are refused") {
  OpTest test;
  const Tensor a = test.random({4, 4}, DType::f32, 1), b = test.random({4, 4}, DType::f32, 2), c = test.empty({4, 4}),
               x = test.empty({4, 4}), n = test.empty({4});
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
