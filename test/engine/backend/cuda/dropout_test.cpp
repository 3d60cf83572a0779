#include "engine/backend/cuda/kernels/dropout.cuh"

#include "engine/backend/cuda/kernels/bias_dropout_add.cuh"
#include "engine/backend/cuda/kernels/random_normal.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

namespace {

const RngKey kKey{0x123456789ABCDEFull, 77, 5};

struct Place {
  Shape shape;
  ops::ElementMap map;
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {
      {{3, 2, 7}, ops::HiddenMap{11, 4, 3}},         {{2, 3, 1027}, ops::HiddenMap{5, 0, 1000001}},
      {{4, 3, 64}, ops::HiddenMap{9, 3, 1}},         {{1, 1, 1}, ops::HiddenMap{1, 0, 0}},
      {{1, 2, 2048}, ops::HiddenMap{4096, 17, 2}},   {{2, 3, 37, 37}, ops::HeadMap{8, 2, 1}},
      {{1, 2, 64, 64}, ops::HeadMap{16, 3, 1 << 20}}};
  return all;
}

}  // namespace

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

TEST_CASE("dropout drops exactly what the CPU drops, and keeps the mask") {
  for (DType type : kFloatTypes)
    for (const Place& p : places())
      for (float share : {0.0f, 0.1f, 0.75f, 1.0f})
        for (bool has_mask : {false, true}) {
          CAPTURE(name_of(type), p.shape.str(), share, has_mask);
          check_kernel({0, 0}, [&](KernelCase& c) {
            const Tensor x = c.in(p.shape, type);
            return ops::Dropout{x,
                                has_mask ? c.out(p.shape, type) : c.result(x),
                                has_mask ? c.out(p.shape, DType::u8) : Tensor(),
                                {share, kKey},
                                p.map};
          });
        }
}

TEST_CASE("dropout_grad reads the mask or draws the words again") {
  for (DType type : kFloatTypes)
    for (const Place& p : places())
      for (bool has_mask : {false, true}) {
        CAPTURE(name_of(type), p.shape.str(), has_mask);
        check_kernel({0, 0}, [&](KernelCase& c) {
          const Tensor dy = c.in(p.shape, type);
          Values mask;
          for (std::int64_t i = 0; i < p.shape.numel(); ++i) mask.push_back(i % 5 != 0);
          return ops::DropoutGrad{dy,
                                  c.out(p.shape, type),
                                  has_mask ? c.values(p.shape, DType::u8, mask) : Tensor(),
                                  {0.25f, kKey},
                                  p.map};
        });
      }
}

TEST_CASE("dropout refuses a shape that its map does not describe") {
  OpTest test;
  cuda::EmulatedStream stream;
  const Tensor x = test.empty({4, 8});
  CHECK_THROWS_AS(enqueue(stream, ops::Dropout{x, x, Tensor(), {0.5f, kKey}, ops::HiddenMap{4, 0, 0}}),
                  Error);
  CHECK_THROWS_AS(enqueue(stream, ops::Dropout{x, x, Tensor(), {0.5f, kKey}, ops::HeadMap{4, 0, 0}}), Error);
}

TEST_CASE("bias_dropout_add on the CPU and on the GPU") {
  for (DType type : kFloatTypes)
    for (const Place& p : places()) {
      if (p.shape.rank() != 3) continue;
      for (float share : {0.0f, 0.25f})
        for (bool has_bias : {false, true}) {
          CAPTURE(name_of(type), p.shape.str(), share, has_bias);
          check_kernel(rounding(type, 1e-6), [&](KernelCase& c) {
            const Tensor x = c.in(p.shape, type), residual = c.in(p.shape, type);
            const Tensor bias = has_bias ? c.in({p.shape[2]}, type) : Tensor();
            return ops::BiasDropoutAdd{x,
                                       bias,
                                       residual,
                                       has_bias ? c.result(x) : c.out(p.shape, type),
                                       has_bias ? c.out(p.shape, DType::u8) : Tensor(),
                                       {share, kKey},
                                       std::get<ops::HiddenMap>(p.map)};
          });
        }
    }
}

TEST_CASE("random_normal: whole tensors and shards of them") {
  const auto check_draw = [](const Shape& shape, std::int64_t global_cols, std::int64_t row0,
                             std::int64_t col0) {
    CAPTURE(shape.str(), global_cols, row0, col0);
    check_kernel({2e-6, 2e-7}, [&](KernelCase& c) {
      return ops::RandomNormal{c.out(shape), 0.5f, kKey, global_cols, row0, col0};
    });
  };
  check_draw({7, 33}, 33, 0, 0);
  check_draw({7, 33}, 33, 5, 0);
  check_draw({1}, 1, 0, 0);
  check_draw({1027}, 1027, 0, 0);
  for (std::int64_t col0 : {0, 1, 2, 3, 255}) check_draw({5, 31}, 1024 + 3, 1000003, col0);
}
