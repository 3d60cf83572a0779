#include "engine/ops/matmul.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

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
