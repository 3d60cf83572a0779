#include "engine/device/tensor.h"

#include "engine/backend/cpu/cpu_device.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("views, slices and parts share their memory, which returns with the last of them") {
  cpu::CpuDevice device;
  Tensor t = device.empty({4, 3, 2}, DType::f32, Category::weights, "t");
  CHECK(device.memory().in_use().by_category[static_cast<int>(Category::weights)] == 512);
  for (int i = 0; i < 24; ++i) t.as<float>()[i] = static_cast<float>(i);
  Tensor flat = t.view({24}), rows = t.slice(1, 2), piece = t.part(5, {2, 2});
  t.reset();
  CHECK_FALSE(static_cast<bool>(t));
  CHECK(flat.as<float>()[23] == 23);
  CHECK(rows.shape() == Shape{2, 3, 2});
  CHECK(rows.as<float>()[0] == 6);
  CHECK(rows.slice(1, 1).as<float>()[0] == 12);
  CHECK(piece.as<float>()[3] == 8);
  CHECK(piece.bytes() == 16);
  flat.reset();
  rows.reset();
  CHECK(device.memory().in_use().total == 512);
  piece.reset();
  CHECK(device.memory().in_use().total == 0);
}

TEST_CASE("bytes as elements of another type lie where they did, along the last dim") {
  cpu::CpuDevice device;
  const Tensor t = device.empty({2, 3}, DType::i64, Category::weights, "t");
  for (int i = 0; i < 6; ++i) t.as<std::int64_t>()[i] = 1000 * i;
  const Tensor rows = t.slice(1, 1).bytes_as(DType::f32);
  CHECK(rows.shape() == Shape{1, 6});
  CHECK(rows.dtype() == DType::f32);
  CHECK(rows.bytes_as(DType::i64).shape() == Shape{1, 3});
  CHECK(rows.bytes_as(DType::i64).as<std::int64_t>()[2] == 5000);
  CHECK_THROWS_AS(device.empty({2, 3}, DType::f32, Category::weights, "odd").bytes_as(DType::i64), Error);
}

TEST_CASE("a view or slice that does not fit its tensor is refused") {
  cpu::CpuDevice device;
  const Tensor t = device.empty({4, 3}, DType::bf16, Category::weights, "t");
  CHECK_THROWS_AS(t.view({5, 3}), Error);
  CHECK_THROWS_AS(t.slice(3, 2), Error);
  CHECK_THROWS_AS(t.slice(-1, 1), Error);
  CHECK_THROWS_AS(t.part(10, {3}), Error);
  CHECK_NOTHROW(t.slice(4, 0));
}
