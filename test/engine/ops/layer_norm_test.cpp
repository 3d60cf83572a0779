#include "engine/ops/layer_norm.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("layer_norm of a row with a NaN is NaN") {
  OpTest test;
  Values v = uniform(3 * 40, -1, 1, 1);
  v[45] = std::nan("");
  const Tensor x = test.put({3, 40}, DType::f32, v), one = test.put({40}, DType::f32, Values(40, 1.0));
  const Tensor y = test.empty({3, 40}), s = test.empty({3}), t = test.empty({3});
  test.run(ops::LayerNorm{x, one, one, y, s, t});
  for (std::size_t i = 0; i < 120; ++i) CHECK(std::isnan(OpTest::get(y)[i]) == (i / 40 == 1));
}
