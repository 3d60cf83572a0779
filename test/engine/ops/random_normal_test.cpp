#include "engine/ops/random_normal.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

const RngKey kKey{42, 9, 0};

}  // namespace

TEST_CASE("random_normal has mean zero and the variance that it is told") {
  OpTest test;
  const Tensor x = test.empty({300, 1001});
  test.run(ops::RandomNormal{x, 0.02f, kKey, 1001, 7, 0});
  double mean = 0, square = 0;
  for (double v : OpTest::get(x)) mean += v / 0.02, square += v * v / 0.0004;
  CHECK(mean / static_cast<double>(x.numel()) == Approx(0).margin(0.01));
  CHECK(square / static_cast<double>(x.numel()) == Approx(1).margin(0.02));
}

TEST_CASE("every slice of a tensor has the bits of the whole") {
  OpTest test;
  const std::int64_t rows = 23, cols = 777;
  const Tensor whole = test.empty({rows, cols});
  test.run(ops::RandomNormal{whole, 1.5f, kKey, cols, 0, 0});
  const Values v = OpTest::get(whole);
  struct Slice {
    std::int64_t row0, rows, col0, cols;
  };
  for (const Slice& s : {Slice{0, 23, 0, 388}, Slice{0, 23, 388, 389}, Slice{5, 7, 0, 777}, Slice{22, 1, 776, 1},
                         Slice{3, 11, 129, 3}, Slice{1, 2, 255, 258}}) {
    CAPTURE(s.row0, s.rows, s.col0, s.cols);
    const Tensor part = test.garbage({s.rows, s.cols});
    test.run(ops::RandomNormal{part, 1.5f, kKey, cols, s.row0, s.col0});
    Values want;
    for (std::int64_t r = s.row0; r < s.row0 + s.rows; ++r)
      want.insert(want.end(), v.begin() + r * cols + s.col0, v.begin() + r * cols + s.col0 + s.cols);
    CHECK(OpTest::get(part) == want);
  }
}
