#include "engine/backend/cuda/kernels/attention_mask.cuh"
#include "engine/backend/cuda/kernels/bias_add.cuh"
#include "engine/backend/cuda/kernels/bias_gelu.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

TEST_CASE("bias_add adds the bias of a column to every row") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths)
      for (std::int64_t rows : {1, 7}) {
        CAPTURE(name_of(type), n, rows);
        check_kernel({0, 0}, [&](KernelCase& c) {
          const Tensor x = c.in({rows, n}, type);
          return ops::BiasAdd{x, c.in({n}, type), rows == 7 ? c.result(x) : c.out({rows, n}, type)};
        });
      }
}

TEST_CASE("bias_grad adds the sums of the columns") {
  for (DType type : kFloatTypes)
    for (DType to : {DType::f32, type})
      for (std::int64_t n : kWidths)
        for (std::int64_t rows : {1, 50, 333}) {
          if (rows == 333 && n > 64) continue;
          CAPTURE(name_of(type), name_of(to), n, rows);
          check_kernel(rounding(to, 2e-5), [&](KernelCase& c) {
            const Tensor dy = c.in({rows, n}, type);
            return ops::BiasGrad{dy, c.inout({n}, to)};
          });
        }
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

TEST_CASE("bias_gelu and its gradient, with and without a bias") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths)
      for (bool has_bias : {false, true}) {
        CAPTURE(name_of(type), n, has_bias);
        check_kernel(rounding(type), [&](KernelCase& c) {
          const Tensor x = c.in({3, n}, type, -6, 6);
          return ops::BiasGelu{x, has_bias ? c.in({n}, type) : Tensor(), c.out({3, n}, type)};
        });
        for (bool in_place : {false, true})
          check_kernel(rounding(type), [&](KernelCase& c) {
            const Tensor x = c.in({3, n}, type, -6, 6);
            ops::BiasGelu op{x, has_bias ? c.in({n}, type) : Tensor(), c.out({3, n}, type)};
            op.sum = in_place ? c.result(x) : c.out({3, n}, type);
            return op;
          });
        check_kernel(rounding(type), [&](KernelCase& c) {
          const Tensor dy = c.in({3, n}, type), x = c.in({3, n}, type, -6, 6);
          return ops::BiasGeluGrad{dy, x, has_bias ? c.in({n}, type) : Tensor(), c.result(dy)};
        });
      }
}

TEST_CASE("gelu of values far from zero is the value or nothing") {
  for (DType type : kFloatTypes)
    check_kernel(rounding(type), [&](KernelCase& c) {
      return ops::BiasGelu{c.values({1, 6}, type, {-60000, -100, -30, 30, 100, 60000}), Tensor(),
                           c.out({1, 6}, type)};
    });
}

TEST_CASE("attention_mask: causal, and from the keys that are real") {
  for (std::int64_t keys : {1, 31, 33, 64, 255})
    for (bool causal : {false, true}) {
      CAPTURE(keys, causal);
      check_kernel({0, 0}, [&](KernelCase& c) {
        const std::int64_t batch = causal ? 1 : 3, queries = 5;
        Values keep;
        for (std::int64_t i = 0; i < batch * keys; ++i) keep.push_back(i % 3 != 0);
        return ops::AttentionMask{causal ? Tensor() : c.values({batch, keys}, DType::u8, keep),
                                  c.out({batch, queries, keys}, DType::u8)};
      });
    }
}
