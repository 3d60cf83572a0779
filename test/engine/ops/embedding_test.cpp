#include "engine/ops/embedding.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("the shards of a vocabulary add up to the whole look-up") {
  OpTest test;
  const Tensor ids = test.ids({0, 5, 7, 2, 2}), table = test.random({8, 6}, DType::f32, 1);
  const Tensor whole = test.empty({5, 6}), sum = test.put({5, 6}, DType::f32, Values(30, 0.0));
  test.run(ops::Embedding{ids, table, whole, 0, false});
  for (std::int64_t first : {0, 4}) test.run(ops::Embedding{ids, table.slice(first, 4), sum, first, true});
  CHECK(OpTest::get(sum) == OpTest::get(whole));
}
