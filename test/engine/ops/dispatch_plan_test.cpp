#include "engine/ops/dispatch_plan.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("tensors that are too short for a plan of dispatch are refused") {
  OpTest test;
  const auto integers_of = [&](const Shape& shape) { return test.empty(shape, DType::i64); };
  ops::DispatchPlan op{test.ids({0, 1, 1, 0}), Tensor(), integers_of({4}), integers_of({2}), integers_of({3})};
  op.rows = integers_of({4});
  CHECK_NOTHROW(op.check());
  op.multiple = 4;
  CHECK_THROWS_AS(op.check(), Error);
  op.pairs = integers_of({10});
  CHECK_NOTHROW(op.check());
  op.capacity = 3;  // and a multiple
  CHECK_THROWS_AS(op.check(), Error);
  op.multiple = 1;
  CHECK_NOTHROW(op.check());
  op.capacity = 6;
  CHECK_THROWS_AS(op.check(), Error);
}
