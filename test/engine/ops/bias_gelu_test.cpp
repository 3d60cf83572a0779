#include "engine/ops/bias_gelu.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("bias_gelu at the ends of its range") {
  OpTest test;
  const double inf = INFINITY;
  const Tensor x = test.put({1, 6}, DType::f32, {-1e4, -30, 30, 1e4, inf, std::nan("")}), y = test.empty({1, 6});
  test.run(ops::BiasGelu{x, Tensor(), y});
  check_close(OpTest::get(y), {0, 0, 30, 1e4, inf, std::nan("")}, 1e-6, 0);
  const Tensor one = test.put({1, 6}, DType::f32, Values(6, 1.0));
  test.run(ops::BiasGeluGrad{one, x, Tensor(), y});
  const Values slope_at = OpTest::get(y);
  check_close({slope_at.begin(), slope_at.begin() + 4}, {0, 0, 1, 1}, 1e-6, 0);
  CHECK(std::isnan(slope_at[5]));
}
