#include "engine/ops/matmul.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

namespace {

double at(const Values& v, const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
  if (m.transposed) std::swap(r, c);
  return v[static_cast<std::size_t>(m.offset + i * m.batch_stride + r * m.ld + c)];
}

// All of c's tensor, elements outside the product unchanged.
Values reference(const Matmul& op, const Values& c0) {
  const Values a = OpTest::get(op.a.data), b = OpTest::get(op.b.data);
  Values c = c0;
  for (std::int64_t i = 0; i < op.batch; ++i)
    for (std::int64_t r = 0; r < op.c.rows; ++r)
      for (std::int64_t j = 0; j < op.c.cols; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < op.a.cols; ++k) sum += at(a, op.a, i, r, k) * at(b, op.b, i, k, j);
        double& out = c[static_cast<std::size_t>(op.c.offset + i * op.c.batch_stride + r * op.c.ld + j)];
        out = op.alpha * sum + (op.beta == 0 ? 0 : op.beta * out);
      }
  return c;
}

// Operands with a gap after every row and between the matrices of a batch, stored as `t` says.
Matrix strided(OpTest& test, DType type, std::int64_t rows, std::int64_t cols, std::int64_t batch, bool t,
               unsigned seed) {
  const std::int64_t r = t ? cols : rows, c = t ? rows : cols, ld = c + 3, stride = r * ld + 5;
  Matrix m(test.random({2 + batch * stride}, type, seed), r, c, ld, 2, stride);
  return t ? m.t() : m;
}

void check_matmul(DType in, DType out, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                  bool ta, bool tb, float alpha, float beta) {
  CAPTURE(name_of(in), name_of(out), m, n, k, batch, ta, tb, alpha, beta);
  OpTest test;
  Matmul op{strided(test, in, m, k, batch, ta, 1),
            strided(test, in, k, n, batch, tb, 2),
            strided(test, out, m, n, batch, false, 3),
            batch,
            alpha,
            beta};
  const Values before = OpTest::get(op.c.data);
  const Values want = reference(op, before);
  test.run(op);
  const double size = std::sqrt(static_cast<double>(k) + 1);
  check_close(OpTest::get(op.c.data), want, epsilon(out), 1e-6 * size);
}

}  // namespace

TEST_CASE("matmul agrees with a plain product for every type, transposition and stride") {
  for (DType in : kFloatTypes)
    for (DType out : kFloatTypes)
      for (int flags = 0; flags < 4; ++flags) {
        check_matmul(in, out, 17, 29, 23, 1, flags & 1, flags & 2, 1, 0);
        check_matmul(in, out, 5, 33, 7, 6, flags & 1, flags & 2, 0.5f, 1);
        check_matmul(in, out, 1, 1, 1, 2, flags & 1, flags & 2, 2, -0.25f);
      }
}

TEST_CASE("matmul of 16-bit operands is right across the borders of its panels") {
  for (DType in : {DType::bf16, DType::f16})
    for (DType out : {DType::f32, DType::bf16}) {
      check_matmul(in, out, 515, 7, 2050, 1, false, true, 1, 1);
      check_matmul(in, out, 3, 520, 2049, 1, true, false, 1, 0);
      check_matmul(in, out, 514, 516, 9, 3, false, false, 1, 0.5f);
    }
}

TEST_CASE("matmul without beta overwrites NaN, and an empty inner dim scales c") {
  for (DType type : kFloatTypes) {
    OpTest test;
    Tensor c = test.garbage({4, 3}, type);
    test.run(Matmul{Matrix(test.random({4, 2}, type, 1)), Matrix(test.random({2, 3}, type, 2)), Matrix(c)});
    for (double x : OpTest::get(c)) CHECK(std::isfinite(x));

    const Tensor none = test.empty({1}, type);
    const Values before = OpTest::get(c);
    Matmul op{Matrix(none, 4, 0, 0), Matrix(none, 0, 3, 3), Matrix(c)};
    op.beta = 0.5f;
    test.run(op);
    Values want = before;
    for (double& x : want) x *= 0.5;
    check_close(OpTest::get(c), want, epsilon(type), 0);
    op.beta = 0;
    test.run(op);
    for (double x : OpTest::get(c)) CHECK(x == 0);
  }
}

TEST_CASE("matmul of nothing does nothing") {
  OpTest test;
  const Tensor none = test.empty({1});
  Matmul op{Matrix(none, 0, 1, 1), Matrix(none, 1, 1, 1), Matrix(none, 0, 1, 1)};
  CHECK_NOTHROW(test.run(op));
  op.batch = 0;
  CHECK_NOTHROW(test.run(op));
}

TEST_CASE("matmul refuses operands that reach past their tensors") {
  OpTest test;
  const Tensor a = test.random({4, 4}, DType::f32, 1), b = test.random({4, 4}, DType::f32, 2),
               c = test.empty({4, 4});
  CHECK_THROWS_AS(test.run(Matmul{Matrix(a, 4, 4, 4, 1), Matrix(b), Matrix(c)}), Error);
  CHECK_THROWS_AS(test.run(Matmul{Matrix(a, 4, 3, 4), Matrix(b), Matrix(c)}), Error);
}
