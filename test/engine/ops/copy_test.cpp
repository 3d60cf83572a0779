#include "engine/ops/copy.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("copy rounds to nearest even and keeps infinities and NaN") {
  for (DType type : {DType::bf16, DType::f16}) {
    CAPTURE(name_of(type));
    // Every finite value of the type, its neighbours' midpoints and points beside them, through the vector
    // code.
    Values v;
    for (std::uint32_t bits = 0; bits < 0x7C00; bits += 37) {
      const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
      const double a = type == DType::bf16 ? to_float(bf16{low}) : to_float(f16{low});
      const double b = type == DType::bf16 ? to_float(bf16{high}) : to_float(f16{high});
      for (double part : {0.0, 0.25, 0.5, 0.75}) v.push_back((bits & 1 ? -1 : 1) * (a + part * (b - a)));
    }
    v.insert(v.end(), {INFINITY, -INFINITY, std::nan(""), 1e39, 0.0, -0.0});
    OpTest test;
    const auto n = static_cast<std::int64_t>(v.size());
    const Tensor x = test.put({n}, DType::f32, v), y = test.empty({n}, type), expected = test.put({n}, type, v);
    test.run(ops::Copy{x, y});
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isnan(v[static_cast<std::size_t>(i)])) REQUIRE(y.as<bf16>()[i].bits == expected.as<bf16>()[i].bits);
    CHECK(std::isnan(OpTest::get(y)[v.size() - 4]));
  }
}
