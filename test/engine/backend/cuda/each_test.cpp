#include "engine/backend/cuda/kernels/adam.cuh"
#include "engine/backend/cuda/kernels/add.cuh"
#include "engine/backend/cuda/kernels/copy.cuh"
#include "engine/backend/cuda/kernels/sum_squares.cuh"
#include "engine/backend/cuda/kernels/tanh.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

TEST_CASE("add: vectors, their tail, and sums in place") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths)
      for (bool in_place : {false, true}) {
        CAPTURE(name_of(type), n, in_place);
        check_kernel({0, 0}, [&](KernelCase& c) {
          const Tensor a = c.in({n}, type), b = c.in({n}, type);
          return ops::Add{a, b, in_place ? c.result(b) : c.out({n}, type)};
        });
      }
}

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

TEST_CASE("copy casts between any two types and scales") {
  for (DType from : kFloatTypes)
    for (DType to : kFloatTypes)
      for (std::int64_t n : {1, 33, 1027})
        for (float scale : {1.0f, 0.3f}) {
          CAPTURE(name_of(from), name_of(to), n, scale);
          check_kernel({0, 0}, [&](KernelCase& c) {
            return ops::Copy{c.in({n}, from, -1e5, 1e5), c.out({n}, to), scale};
          });
        }
}

TEST_CASE("fill writes the rounded value everywhere") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths)
      check_kernel({0, 0}, [&](KernelCase& c) { return ops::Fill{c.out({n}, type), 0.7f}; });
}

TEST_CASE("tanh and its gradient") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths) {
      CAPTURE(name_of(type), n);
      check_kernel(rounding(type, 1e-6), [&](KernelCase& c) {
        return ops::Tanh{c.in({n}, type, -5, 5), c.out({n}, type)};
      });
      check_kernel(rounding(type), [&](KernelCase& c) {
        const Tensor dy = c.in({n}, type);
        return ops::TanhGrad{dy, c.in({n}, type), c.result(dy)};
      });
    }
}

namespace {

// `count` ranges of a length each with gaps as long between them, from element `first` on.
std::vector<ops::ElementRange> every_other(std::int64_t first, std::int64_t length, std::int64_t count) {
  std::vector<ops::ElementRange> ranges;
  for (std::int64_t i = 0; i < count; ++i)
    ranges.push_back({first + 2 * i * length, first + (2 * i + 1) * length});
  return ranges;
}

}  // namespace

TEST_CASE("adam and sum_squares take ranges: for vectors or not, and more than one launch holds") {
  struct Case {
    std::int64_t first, length, count;
  };
  for (const Case& p :
       {Case{0, 8, 3}, Case{64, 64, 5}, Case{3, 5, 4}, Case{0, 8, 120}, Case{8, 8, 121}, Case{1, 3, 300}})
    for (DType type : kFloatTypes) {
      CAPTURE(name_of(type), p.first, p.length, p.count);
      const std::vector<ops::ElementRange> ranges = every_other(p.first, p.length, p.count);
      const std::int64_t n = ranges.back().end + 13;
      check_kernel(rounding(DType::f32, 1e-7), [&](KernelCase& c) {
        ops::Adam op{c.inout({n}, DType::f32),       c.in({n}, type), c.inout({n}, DType::f32),
                     c.inout({n}, DType::f32, 0, 1), Tensor(),        1e-2f};
        op.weight_decay = 0.5f, op.undecayed = ranges;
        return op;
      });
      check_kernel(rounding(DType::f32), [&](KernelCase& c) {
        return ops::SumSquares{c.in({n}, type), c.inout({1}, DType::f32), ranges};
      });
    }
}

TEST_CASE("adam updates weights, moments and the 16-bit weights") {
  for (DType grad : kFloatTypes)
    for (DType model : kFloatTypes)
      for (std::int64_t n : {1, 33, 1027}) {
        CAPTURE(name_of(grad), name_of(model), n);
        check_kernel(rounding(model, 1e-7), [&](KernelCase& c) {
          ops::Adam op{c.inout({n}, DType::f32),
                       c.in({n}, grad),
                       c.inout({n}, DType::f32),
                       c.inout({n}, DType::f32, 0, 1),
                       model == DType::f32 ? Tensor() : c.out({n}, model),
                       1e-3f};
          op.weight_decay = 0.1f, op.grad_scale = 0.5f, op.step = 3;
          return op;
        });
      }
}
