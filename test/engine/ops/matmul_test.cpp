#include "engine/ops/matmul.h"

#include <cstring>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

TEST_CASE("matmul of nothing does nothing") {
  OpTest test;
  const Tensor none = test.empty({1});
  Matmul op{Matrix(none, 0, 1, 1), Matrix(none, 1, 1, 1), Matrix(none, 0, 1, 1)};
  CHECK_NOTHROW(test.run(op));
  op.batch = 0;
  CHECK_NOTHROW(test.run(op));
}

TEST_CASE("matmul refuses operands that reach past their tensors") {
  OpTest test;
  const Tensor a = test.random({4, 4}, DType::f32, 1), b = test.random({4, 4}, DType::f32, 2), c = test.empty({4, 4});
  CHECK_THROWS_AS(test.run(Matmul{Matrix(a, 4, 4, 4, 1), Matrix(b), Matrix(c)}), Error);
  CHECK_THROWS_AS(test.run(Matmul{Matrix(a, 4, 3, 4), Matrix(b), Matrix(c)}), Error);
}

TEST_CASE("bf16 products repeat to the bit, and what they work in counts as a library's memory") {
  const std::int64_t m = 200, n = 330, k = 1100;
  for (const cpu::Bf16 how : {cpu::Bf16::native, cpu::Bf16::widened}) {
    cpu::CpuDevice device(0, how);
    const auto made = [&](const Shape& shape, DType type, float value) {
      const Tensor t = device.empty(shape, type, Category::other, "t");
      run(device, ops::Fill{t, value});
      return t;
    };
    const Tensor a = made({m, k}, DType::bf16, 0.3f), b = made({n, k}, DType::bf16, -0.7f);
    const Tensor first = made({m, n}, DType::f32, 0), second = made({m, n}, DType::f32, 1);
    const std::size_t reserved = device.memory().peak().total;
    for (const Tensor& c : {first, second}) run(device, Matmul{Matrix(a), Matrix(b).t(), Matrix(c)});
    CHECK(std::memcmp(first.data(), second.data(), first.bytes()) == 0);
    CHECK(device.library_bytes() > 0);
    CHECK(device.memory().peak().total == reserved);
  }
}
