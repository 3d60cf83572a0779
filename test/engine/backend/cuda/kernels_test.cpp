// What the cases of test/ops do not say about our kernels: how they are cut into launches, draws and refusals.
#include "engine/backend/cuda/kernels/add.cuh"
#include "engine/backend/cuda/kernels/bias_add.cuh"
#include "engine/backend/cuda/kernels/copy.cuh"
#include "engine/backend/cuda/kernels/dropout.cuh"
#include "engine/backend/cuda/kernels/e2m1.h"
#include "engine/backend/cuda/kernels/layer_norm.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

namespace {

const RngKey kKey{0x123456789ABCDEFull, 77, 5};

}  // namespace

TEST_CASE("add of nothing launches nothing") {
  OpTest test;
  const Tensor x = test.empty({0});
  cuda::EmulatedStream stream;
  enqueue(stream, ops::Add{x, x, x});
  CHECK(stream.launches().empty());
}

TEST_CASE("elements beyond the largest grid are reached in strides") {
  const std::int64_t n = cuda::kEnoughBlocks * cuda::kFlatThreads + 77;
  OpTest test;
  const Tensor all = test.empty({n + 1}, DType::bf16), x = all.part(1, {n});
  cuda::EmulatedStream stream;
  enqueue(stream, ops::Fill{x, 1.5f});
  REQUIRE(stream.launches().size() == 1);
  CHECK(stream.launches()[0].grid_x == cuda::kEnoughBlocks);
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < n; ++i) right += to_float(x.as<bf16>()[i]) == 1.5f;
  CHECK(right == n);
}

TEST_CASE("bias_grad of many rows is cut into chunks that a launch can take") {
  for (std::int64_t rows : {1, 16, 1000, 100000, 100000000})
    for (std::int64_t cols : {1, 64, 1024, 12288, 50304}) {
      const cuda::ColumnSums plan = cuda::column_sums(rows, cols, cols % 8 == 0 ? 8 : 1);
      CAPTURE(rows, cols, plan.chunks, plan.chunk_rows);
      CHECK_NOTHROW(simt::check_launch("sum_columns", plan.shape, simt::kTuring));
      CHECK(plan.chunks * plan.chunk_rows >= rows);
      CHECK((plan.chunks - 1) * plan.chunk_rows < rows);
      CHECK(plan.chunks * cols <= std::max<std::int64_t>(cols, 1 << 22));  // floats of scratch
    }
}

TEST_CASE("chunks of layer_norm_grad cover all rows and leave little in scratch") {
  for (std::int64_t rows : {1, 5, 1000, 32768, 1 << 20})
    for (std::int64_t n : {1, 64, 1024, 12288, 25600}) {
      CAPTURE(rows, n);
      const std::int64_t each = cuda::norm_chunk_rows(rows, n), chunks = (rows + each - 1) / each;
      CHECK(each * chunks >= rows);
      CHECK(chunks <= 4096);
      CHECK(2 * chunks * n <= 8 << 20);  // floats
    }
}

TEST_CASE("a vector's words are those of its elements, wherever it starts") {
  for (std::uint64_t first : {0ull, 1ull, 2ull, 3ull, 4ull, 0xFFFFFFFFull * 4 + 2, 1ull << 40}) {
    std::uint32_t eight[8], four[4], one[1];
    cuda::draw(kKey, first, eight);
    cuda::draw(kKey, first, four);
    cuda::draw(kKey, first, one);
    for (std::uint64_t i = 0; i < 8; ++i) CHECK(eight[i] == Philox::word(kKey, first + i));
    for (std::uint64_t i = 0; i < 4; ++i) CHECK(four[i] == Philox::word(kKey, first + i));
    CHECK(one[0] == Philox::word(kKey, first));
  }
}

TEST_CASE("a kernel's codes of e2m1 are those of the CPU, for floats of every exponent and around every border") {
  std::int64_t off = 0;
  const auto compare = [&](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    off += cuda::e2m1_nearest(x) != e2m1_from_float(x);
    for (const std::uint32_t word : {0u, 1u, bits * 2654435761u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu})
      off += cuda::e2m1_drawn(x, word) != e2m1_from_float(x, word);
  };
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFull; bits += 65537) compare(static_cast<std::uint32_t>(bits));
  for (int quarters = 0; quarters <= 28; ++quarters)  // values and midpoints are multiples of a quarter
    for (const float x : {0.25f * static_cast<float>(quarters), -0.25f * static_cast<float>(quarters)})
      for (std::uint32_t near = 0; near < 5; ++near) compare(std::bit_cast<std::uint32_t>(x) + near - 2);
  for (const std::uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0x7FC00000u, 0xFFFFFFFFu}) compare(bits);
  CHECK(off == 0);
}

TEST_CASE("dropout refuses a shape that its map does not describe") {
  OpTest test;
  cuda::EmulatedStream stream;
  const Tensor x = test.empty({4, 8});
  CHECK_THROWS_AS(enqueue(stream, ops::Dropout{x, x, Tensor(), {0.5f, kKey}, ops::HiddenMap{4, 0, 0}}), Error);
  CHECK_THROWS_AS(enqueue(stream, ops::Dropout{x, x, Tensor(), {0.5f, kKey}, ops::HeadMap{4, 0, 0}}), Error);
}
