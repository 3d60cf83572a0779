#include "engine/ops/bias_add.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("bias_add adds the bias to every row, in place too") {
  for (DType type : kFloatTypes)
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{9, 1500}, Shape{2, 2, 1024}, Shape{0, 4}}) {
      CAPTURE(name_of(type), shape.str());
      OpTest test;
      const std::int64_t n = shape.cols();
      const Tensor x = test.random(shape, type, 1), bias = test.random({n}, type, 2),
                   y = test.garbage(shape, type);
      Values want = OpTest::get(x);
      const Values b = OpTest::get(bias);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += b[i % static_cast<std::size_t>(n)];
      test.run(ops::BiasAdd{x, bias, y});
      check_close(OpTest::get(y), want, epsilon(type), 1e-6);
      test.run(ops::BiasAdd{x, bias, x});
      CHECK(OpTest::get(x) == OpTest::get(y));
    }
}

TEST_CASE("bias_grad adds the sum over rows to what is there") {
  for (DType type : kFloatTypes)
    for (DType sum_type : {DType::f32, type})
      for (const Shape& shape :
           {Shape{1, 1}, Shape{3, 5, 7}, Shape{131, 1500}, Shape{4000, 3}, Shape{0, 4}}) {
        CAPTURE(name_of(type), name_of(sum_type), shape.str());
        OpTest test;
        const std::int64_t n = shape.cols();
        const Tensor dy = test.random(shape, type, 1), dbias = test.random({n}, sum_type, 2);
        Values want = OpTest::get(dbias);
        const Values d = OpTest::get(dy);
        for (std::size_t i = 0; i < d.size(); ++i) want[i % static_cast<std::size_t>(n)] += d[i];
        test.run(ops::BiasGrad{dy, dbias});
        check_close(OpTest::get(dbias), want, epsilon(sum_type), 1e-4);
      }
}
