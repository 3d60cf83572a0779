#include "engine/ops/add.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("add is a sum, also into its own operands") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : {0, 1, 1023, 1024, 1025, 20000}) {
      CAPTURE(name_of(type), n);
      OpTest test;
      const Tensor a = test.random({n}, type, 1), b = test.random({n}, type, 2), y = test.garbage({n}, type);
      Values want = OpTest::get(a);
      const Values vb = OpTest::get(b);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += vb[i];
      test.run(ops::Add{a, b, y});
      check_close(OpTest::get(y), want, epsilon(type), 1e-7);
      test.run(ops::Add{a, b, b});
      CHECK(OpTest::get(b) == OpTest::get(y));
      test.run(ops::Add{a, a, a});
    }
}
