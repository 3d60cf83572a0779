// What the strided arguments of RMS norms and sums of blocks refuse.
#include "engine/ops/rms_norm.h"

#include "engine/ops/sum_blocks.h"
#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matrix;

TEST_CASE("rows that lie outside of their tensor, or are not as the others, are refused by name") {
  using Catch::Contains;
  OpTest test;
  // 3 tokens of 2 heads of 4 columns and 4 of another kind.
  const Tensor x = test.empty({3, 12}, DType::f32), y = test.empty({3, 8}, DType::f32);
  const Tensor gamma = test.empty({4}, DType::f32), rstd = test.empty({6}, DType::f32);
  const auto heads = [](const Tensor& t, std::int64_t first) { return Matrix(t, 2, 4, 4, first, t.shape().cols()); };
  const ops::RmsNorm fits{heads(x, 4), gamma, heads(y, 0), rstd, 1e-5f, 3};
  CHECK_NOTHROW(fits.check());
  ops::RmsNorm op = fits;
  op.x = heads(x, 5);
  CHECK_THROWS_WITH(op.check(),
                    Contains("rms_norm") && Contains("x reaches past its tensor, got end 37, need at most 36"));
  op = fits, op.batch = 4;
  CHECK_THROWS_WITH(op.check(), Contains("x reaches past its tensor"));
  op = fits, op.y = Matrix(y, 1, 4, 4, 0, 8);
  CHECK_THROWS_WITH(op.check(), Contains("y, got 1 x 4, need 2 x 4"));
  op = fits, op.y = op.y.t();
  CHECK_THROWS_WITH(op.check(), Contains("transposed"));
  op = fits, op.rstd = gamma;
  CHECK_THROWS_WITH(op.check(), Contains("rstd"));
  const ops::SumBlocks sum{Matrix(x, 3, 4, 12, 0, 4), Matrix(y, 3, 4, 8), 3};
  CHECK_NOTHROW(sum.check());
  ops::SumBlocks other = sum;
  other.batch = 4;
  CHECK_THROWS_WITH(other.check(), Contains("sum_blocks") && Contains("from reaches past its tensor"));
  other = sum, other.to = Matrix(y, 3, 2, 8);
  CHECK_THROWS_WITH(other.check(), Contains("3 x 4 into 3 x 2"));
  other = sum, other.to = Matrix(x, 3, 4, 12);
  CHECK_THROWS_WITH(other.check(), Contains("memory in common"));
}
