#include "engine/backend/cuda/kernels/row.h"

#include "engine/backend/cuda/kernels/layer_norm.cuh"
#include "engine/backend/cuda/kernels/softmax.cuh"
#include "engine/backend/cuda/kernels/sum_squares.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

namespace {

// Ragged widths, one that a warp's registers hold, ones that several warps' do, and one that is read again
// and again.
constexpr std::int64_t kRows[] = {1, 31, 33, 256, 1027, 1032, 5000};

}  // namespace

TEST_CASE("layer_norm of few and of many columns") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kRows)
      for (std::int64_t rows : {1, 6}) {
        CAPTURE(name_of(type), n, rows);
        check_kernel(rounding(type, 2e-5), [&](KernelCase& c) {
          const Tensor x = c.in({rows, n}, type, -2, 3), gamma = c.in({n}, type), beta = c.in({n}, type);
          return ops::LayerNorm{x, gamma, beta, c.out({rows, n}, type), c.out({rows}), c.out({rows}), 1e-5f};
        });
      }
}

namespace {

void check_norm_grad(DType type, std::int64_t rows, std::int64_t n) {
  const bool has_residual = rows > 1;
  const DType to = has_residual ? DType::f32 : type;
  CAPTURE(name_of(type), n, rows);
  check_kernel(rounding(type, 3e-5), [&](KernelCase& c) {
    const Tensor dy = c.in({rows, n}, type), x = c.in({rows, n}, type, -2, 3);
    const Tensor mean = c.in({rows}, DType::f32, 0.4, 0.6), rstd = c.in({rows}, DType::f32, 0.6, 0.8);
    const Tensor gamma = c.in({n}, type), residual = has_residual ? c.in({rows, n}, type) : Tensor();
    return ops::LayerNormGrad{dy,
                              x,
                              mean,
                              rstd,
                              gamma,
                              residual,
                              has_residual ? c.result(dy) : c.out({rows, n}, type),
                              c.inout({n}, to),
                              c.inout({n}, to)};
  });
}

}  // namespace

TEST_CASE("layer_norm_grad: dx with and without the residual, in place, and the sums over rows") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kRows)
      for (std::int64_t rows : {1, 6}) check_norm_grad(type, rows, n);
  for (std::int64_t n : {7, 64})
    check_norm_grad(DType::bf16, 75, n);  // more chunks than are added side by side
  check_norm_grad(DType::f32, 2, 6400);   // vectors, but more than registers hold
}

TEST_CASE("chunks of layer_norm_grad cover all rows and leave little in scratch") {
  for (std::int64_t rows : {1, 5, 1000, 32768, 1 << 20})
    for (std::int64_t n : {1, 64, 1024, 12288, 25600}) {
      CAPTURE(rows, n);
      const std::int64_t each = cuda::norm_chunk_rows(rows, n), chunks = (rows + each - 1) / each;
      CHECK(each * chunks >= rows);
      CHECK(chunks <= 1024);
      CHECK(2 * chunks * n <= 8 << 20);  // floats
    }
}

TEST_CASE("softmax: causal, masked, padded, and rows with no key left") {
  for (DType type : kFloatTypes)
    for (std::int64_t keys : {1, 31, 33, 256, 1027, 1032})
      for (int kind = 0; kind < 5; ++kind) {
        CAPTURE(name_of(type), keys, kind);
        const Shape shape{2, 2, kind == 1 ? std::min<std::int64_t>(keys, 5) : 2, keys};
        check_kernel(rounding(type, 1e-7), [&](KernelCase& c) {
          const Tensor scores = c.in(shape, type, -4, 4);
          ops::Softmax op;
          op.scores = scores, op.probs = kind % 2 == 0 ? c.result(scores) : c.out(shape, type),
          op.scale = 0.7f;
          op.causal = kind == 1;
          const auto bytes = [&](const Shape& s, int period, int empty_row) {
            Values v;
            for (std::int64_t i = 0; i < s.numel(); ++i)
              v.push_back(i % period == 0 || i / keys == empty_row);
            return c.values(s, DType::u8, v);
          };
          if (kind == 2) op.mask = bytes({1, 2, keys}, 4, 1);
          if (kind == 3) op.mask = bytes({2, 2, keys}, 3, 3);
          if (kind >= 3) op.keep = bytes({2, keys}, 2, -1);
          return op;
        });
      }
}

TEST_CASE("softmax of infinities and of NaN is what the CPU makes of them") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  check_kernel({1e-6, 1e-7}, [&](KernelCase& c) {
    const Shape shape{1, 1, 5, 4};
    ops::Softmax op;
    op.scores = c.values(shape, DType::f32, {-inf, 1,    2,   -inf, nan, 1, 2,   3,   -inf, -inf,
                                             -inf, -inf, inf, 1,    2,   3, nan, nan, nan,  nan});
    op.probs = c.out(shape);
    return op;
  });
}

TEST_CASE("softmax_grad, causal and not, in place and not") {
  for (DType type : kFloatTypes)
    for (std::int64_t keys : {1, 31, 33, 256, 1027, 5000})
      for (bool causal : {false, true}) {
        CAPTURE(name_of(type), keys, causal);
        const Shape shape{1, 2, 3, keys};
        check_kernel(rounding(type, 2e-5), [&](KernelCase& c) {
          const Tensor d = c.in(shape, type), p = c.in(shape, type, 0, 0.1);
          return ops::SoftmaxGrad{d, p, causal ? c.result(d) : c.out(shape, type), 0.5f, causal};
        });
      }
}

TEST_CASE("sum_squares adds the squares of everything, and an infinity stays one") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : {1, 31, 255, 1027, 270000}) {
      if (n == 270000 && type != DType::bf16) continue;  // more than one stride of the largest grid
      CAPTURE(name_of(type), n);
      check_kernel({1e-6, 0}, [&](KernelCase& c) {
        return ops::SumSquares{c.in({n}, type), c.inout({1}, DType::f32)};
      });
    }
  check_kernel({0, 0}, [&](KernelCase& c) {
    return ops::SumSquares{c.values({3}, DType::f16, {1, std::numeric_limits<double>::infinity(), 2}),
                           c.inout({1}, DType::f32)};
  });
  check_kernel({0, 0}, [&](KernelCase& c) {
    return ops::SumSquares{c.values({3}, DType::f32, {1, std::nan(""), 2}), c.inout({1}, DType::f32)};
  });
}
