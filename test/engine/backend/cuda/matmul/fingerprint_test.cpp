// Prints of results: equal for equal bits, different where one bit or one place is, and not fooled by zeros.
#include "engine/backend/cuda/matmul/fingerprint.cuh"

#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

struct Print {
  std::uint64_t hash = 0, informative = 0;
  bool operator==(const Print&) const = default;
};

Print print_of(const Tensor& x, simt::Order order = simt::Order::ascending) {
  std::vector<Print> partial(cuda::kPrintBlocks);
  cuda::EmulatedStream stream(order);
  cuda::enqueue_fingerprint(stream, "test", x.data(), x.dtype(), x.numel(), partial.data());
  Print sum;
  for (const Print& p : partial) sum.hash += p.hash, sum.informative += p.informative;
  return sum;
}

}  // namespace

TEST_CASE("a print depends on every bit and on its place") {
  for (DType type : kFloatTypes)
    for (std::int64_t n :
         {std::int64_t{1}, std::int64_t{33}, std::int64_t{1027}, cuda::kPrintBlocks * cuda::kFlatThreads + 77}) {
      CAPTURE(name_of(type), n);
      OpTest test;
      const Tensor x = test.random({n}, type, 1, 0.5, 1);
      const Print before = print_of(x);
      CHECK(before.informative == static_cast<std::uint64_t>(n));
      CHECK(print_of(x, simt::Order::descending) == before);
      for (const std::int64_t place : {std::int64_t{0}, n / 2, n - 1}) {
        std::byte& last = x.data()[place * static_cast<std::int64_t>(size_of(type))];
        last ^= std::byte{1};
        CHECK(print_of(x).hash != before.hash);
        last ^= std::byte{1};
      }
      CHECK(print_of(x) == before);
      if (n == 1) continue;
      Values v = OpTest::get(x);
      std::swap(v.front(), v.back());
      REQUIRE(v.front() != v.back());
      test.set(x, v);
      CHECK(print_of(x).hash != before.hash);
    }
}

TEST_CASE("zeros, infinities and NaNs tell nothing") {
  for (DType type : kFloatTypes) {
    CAPTURE(name_of(type));
    OpTest test;
    const double inf = INFINITY;
    CHECK(print_of(test.put({5}, type, {0, -0.0, inf, -inf, std::nan("")})).informative == 0);
    CHECK(print_of(test.put({4}, type, {0, 1e-5, -2, std::nan("")})).informative == 2);
  }
}
