#include "engine/ops/grouped_matmul.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("offsets of experts that fall or reach past the rows are refused") {
  OpTest test;
  ops::GroupedMatmul op;
  op.x = test.empty({6, 4}), op.w = test.empty({2, 3, 4}), op.y = test.empty({6, 3});
  const auto with = [&](const std::vector<std::int64_t>& offsets) {
    op.offsets = offsets;
    op.check();
  };
  CHECK_NOTHROW(with({0, 2, 6}));
  CHECK_THROWS_AS(with({0, 4, 2}), Error);
  CHECK_THROWS_AS(with({0, 4, 7}), Error);
  CHECK_THROWS_AS(with({-1, 4, 6}), Error);
  CHECK_THROWS_AS(with({0, 6}), Error);
}
