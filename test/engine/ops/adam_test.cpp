#include "engine/ops/adam.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("adam's 16-bit weights are its main weights, rounded once") {
  for (DType type : {DType::bf16, DType::f16}) {
    constexpr std::int64_t n = 30000;
    OpTest test;
    const Tensor param = test.random({n}, DType::f32, 1), model = test.garbage({n}, type);
    ops::Adam op{
        param, test.random({n}, type, 2), test.random({n}, DType::f32, 3), test.random({n}, DType::f32, 4, 0, 1), model,
        0.01f};
    test.run(op);
    CHECK(OpTest::get(model) == OpTest::get(test.put({n}, type, OpTest::get(param))));
  }
}

TEST_CASE("adam refuses ranges that overlap, are empty or lie outside") {
  OpTest test;
  const Tensor x = test.random({100}, DType::f32, 1);
  for (const std::vector<ops::ElementRange>& wrong : std::vector<std::vector<ops::ElementRange>>{
           {{0, 101}}, {{5, 5}}, {{-1, 4}}, {{0, 4}, {4, 8}}, {{10, 12}, {0, 3}}}) {
    ops::Adam op{x, x, x, x, {}};
    op.undecayed = wrong;
    CHECK_THROWS_AS(op.check(), Error);
  }
}
