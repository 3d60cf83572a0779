#include "engine/ops/sum_squares.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("sum_squares adds to what is there") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : {0, 1, 17, 1025, 65537, 300001}) {
      CAPTURE(name_of(type), n);
      OpTest test;
      const Tensor x = test.random({n}, type, 1), sum = test.put({1}, DType::f32, {2.5});
      const Values v = OpTest::get(x);
      test.run(ops::SumSquares{x, sum});
      CHECK(OpTest::get(sum)[0] == Approx(2.5 + dot(v, v)).epsilon(1e-6));
    }
}

TEST_CASE("sum_squares of ranges adds those alone") {
  const std::vector<ops::ElementRange> ranges{{0, 1}, {17, 1025}, {4096, 70001}};
  for (DType type : kFloatTypes) {
    OpTest test;
    const Tensor x = test.random({70001}, type, 1), sum = test.put({1}, DType::f32, {2.5});
    const Values v = OpTest::get(x);
    double want = 2.5;
    for (const ops::ElementRange& r : ranges)
      for (std::int64_t i = r.begin; i < r.end; ++i)
        want += v[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(i)];
    test.run(ops::SumSquares{x, sum, ranges});
    CHECK(OpTest::get(sum)[0] == Approx(want).epsilon(1e-6));
  }
}

TEST_CASE("sum_squares shows an overflow") {
  for (DType type : kFloatTypes)
    for (double bad : {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), std::nan("")}) {
      OpTest test;
      Values v = uniform(5000, -1, 1, 1);
      v[4321] = bad;
      const Tensor sum = test.put({1}, DType::f32, {0.0});
      test.run(ops::SumSquares{test.put({5000}, type, v), sum});
      CHECK_FALSE(std::isfinite(OpTest::get(sum)[0]));
      CHECK(std::isnan(OpTest::get(sum)[0]) == std::isnan(bad));
    }
}
