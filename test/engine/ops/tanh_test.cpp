#include "engine/ops/tanh.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("tanh and its gradient agree with the reference, also in place") {
  for (DType type : kFloatTypes)
    for (double range : {1e-3, 1.0, 20.0}) {
      CAPTURE(name_of(type), range);
      OpTest test;
      const Shape shape{3, 701};
      const Tensor x = test.random(shape, type, 1, -range, range), dy = test.random(shape, type, 2);
      const Tensor y = test.garbage(shape, type), dx = test.garbage(shape, type);
      const Values v = OpTest::get(x);
      Values want(v.size());
      for (std::size_t i = 0; i < v.size(); ++i) want[i] = std::tanh(v[i]);
      test.run(ops::Tanh{x, y});
      check_close(OpTest::get(y), want, epsilon(type), type == DType::f16 ? 1e-6 : 1e-12);
      const Values stored = OpTest::get(y), d = OpTest::get(dy);
      for (std::size_t i = 0; i < v.size(); ++i) want[i] = d[i] * (1 - stored[i] * stored[i]);
      test.run(ops::TanhGrad{dy, y, dx});
      check_close(OpTest::get(dx), want, epsilon(type), 2e-7);
      test.run(ops::TanhGrad{dy, y, dy});
      CHECK(OpTest::get(dy) == OpTest::get(dx));
      test.run(ops::Tanh{x, x});
      CHECK(OpTest::get(x) == OpTest::get(y));
    }
}

TEST_CASE("tanh of the ends of its range") {
  OpTest test;
  const Tensor x = test.put({5}, DType::f32, {-INFINITY, INFINITY, 0.0, 1e30, std::nan("")});
  test.run(ops::Tanh{x, x});
  check_close(OpTest::get(x), {-1, 1, 0, 1, std::nan("")}, 0, 0);
}
