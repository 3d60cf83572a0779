#include "engine/backend/cpu/cpu_device.h"

#include <unistd.h>

#include <cstring>
#include <vector>

#include "engine/ops/ops.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("host memory is aligned, usable as far as committed, and keeps its contents when it grows") {
  cpu::HostMemory memory(std::size_t{64} << 20);
  const std::size_t granule = memory.granule();
  CHECK(granule == std::size_t{2} << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.base()) % granule == 0);
  REQUIRE(memory.commit(granule));
  memory.base()[0] = std::byte{1};
  memory.base()[granule - 1] = std::byte{2};
  REQUIRE(memory.commit(4 * granule));
  memory.base()[4 * granule - 1] = std::byte{3};
  CHECK(memory.base()[0] == std::byte{1});
  CHECK(memory.base()[granule - 1] == std::byte{2});
  CHECK(memory.base()[2 * granule] == std::byte{0});
}

TEST_CASE("host memory refuses what its range or the machine does not have") {
  cpu::HostMemory small(std::size_t{4} << 20);
  CHECK_FALSE(small.commit(std::size_t{6} << 20));
  CHECK(small.commit(std::size_t{4} << 20));

  const std::size_t physical =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Sixteen machines' worth in one request: refused before the first page of it.
  cpu::HostMemory large(16 * physical);
  CHECK_FALSE(large.commit(16 * (physical >> 21 << 21)));
  CHECK(large.commit(std::size_t{2} << 20));
}

TEST_CASE("values written to a device are read back") {
  cpu::CpuDevice device;
  CHECK(device.real());
  CHECK_FALSE(device.name().empty());
  const Tensor t = device.empty({3}, DType::f32, Category::other, "t");
  const std::vector<float> values{1.5f, -2, 3};
  device.write(t, std::as_bytes(std::span(values)));
  std::vector<float> back(3);
  device.read(t, std::as_writable_bytes(std::span(back)));
  CHECK(back == values);
  CHECK(device.read(t.slice(1, 1), 99) == -2);
  const Tensor half = device.empty({1}, DType::bf16, Category::other, "t");
  mbench::run(device, ops::Fill{half, 0.5f});
  CHECK(device.read(half, 99) == 0.5f);
  CHECK_THROWS_AS(device.read(t, 0.0f), Error);
  CHECK_THROWS_AS(device.write(half, std::as_bytes(std::span(values))), Error);
  const double before = device.synchronize();
  CHECK(device.synchronize() >= before);
}

TEST_CASE("running an op charges its cost to the meter and checks its arguments first") {
  cpu::CpuDevice device;
  const auto make = [&](const Shape& s) { return device.empty(s, DType::f32, Category::other, "t"); };
  const Tensor a = make({4, 8}), b = make({8, 2}), c = make({4, 2});
  for (const Tensor& t : {a, b, c}) mbench::run(device, ops::Fill{t, 1});
  device.meter().reset();
  mbench::run(device, ops::Matmul{ops::Matrix(a), ops::Matrix(b), ops::Matrix(c)});
  CHECK(device.meter().matmul_flops == 2 * 4 * 8 * 2);
  CHECK(device.meter().bytes == 4 * (32 + 16 + 8));
  CHECK(device.meter().launches == 1);
  CHECK_THROWS_AS(mbench::run(device, ops::Add{a, b, a}), Error);
  CHECK(device.meter().launches == 1);
}

TEST_CASE("a device with a limit runs out of memory at the limit") {
  cpu::CpuDevice device(std::size_t{4} << 20);
  const Tensor t = device.empty({3 << 20}, DType::u8, Category::weights, "t");
  CHECK_THROWS_AS(device.empty({2 << 20}, DType::u8, Category::weights, "u"), OutOfMemory);
  CHECK_NOTHROW(device.empty({1 << 20}, DType::u8, Category::weights, "v"));
}

TEST_CASE("the peaks of a matrix product in each type and of exponentials are measured") {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) CHECK(cpu::measure_gemm_peak(type, 0.01) > 1e8);
  CHECK(cpu::measure_exponential_peak(0.01) > 1e7);
}

TEST_CASE("a copy brings values of any type to another place, is counted, and is nothing where it would stay") {
  cpu::CpuDevice device;
  std::vector<std::int64_t> values(100003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(3 * i);
  const auto n = static_cast<std::int64_t>(values.size());
  const Tensor from = device.empty({n}, DType::i64, Category::other, "from");
  const Tensor to = device.empty({n}, DType::i64, Category::other, "to");
  device.write(from, std::as_bytes(std::span(values)));
  device.copy(from, to);
  std::vector<std::int64_t> got(values.size());
  device.read(to, std::as_writable_bytes(std::span(got)));
  CHECK(got == values);
  CHECK(device.meter().launches == 1);
  CHECK(device.meter().bytes == 2.0 * static_cast<double>(from.bytes()));

  device.copy(from, from.view({1, n}));
  device.copy(from.slice(0, 0), to.slice(0, 0));
  CHECK(device.meter().launches == 1);
  CHECK_THROWS_AS(device.copy(from.slice(0, 10), from.slice(9, 10)), Error);
  CHECK_THROWS_AS(device.copy(from, to.slice(1, n - 1)), Error);
  CHECK_THROWS_AS(device.copy(from, device.empty({n}, DType::f32, Category::other, "f32")), Error);
}

TEST_CASE("scratch of the CPU's kernels is reported and bound by the device's limit, the arena is not touched") {
  constexpr std::size_t limit = std::size_t{8} << 20;
  cpu::CpuDevice device(limit, cpu::Bf16::widened);
  const auto product_of = [&](std::int64_t n) {
    const Tensor a = device.empty({n, n}, DType::bf16, Category::other, "a");
    const Tensor c = device.empty({n, n}, DType::bf16, Category::other, "c");
    mbench::run(device, ops::Fill{a, 0.5f});
    CHECK(device.library_bytes() == 0);
    mbench::run(device, ops::Matmul{ops::Matrix(a), ops::Matrix(a), ops::Matrix(c)});
  };
  product_of(64);
  // Panels of both operands and a tile of the result, in f32.
  CHECK(device.library_bytes() >= 3 * 64 * 64 * sizeof(float));
  CHECK(device.memory().peak().total == 2 * 64 * 64 * 2);

  cpu::CpuDevice full(limit);
  const Tensor most = full.empty({8 << 20}, DType::u8, Category::other, "most");
  CHECK(full.memory().reserved() == limit);
  cpu::Scratch scratch(full.memory());
  CHECK_THROWS_WITH(scratch.bytes(64), Catch::Matchers::Contains("out of memory at scratch of the CPU's kernels"));
  CHECK(full.library_bytes() == 0);
}
