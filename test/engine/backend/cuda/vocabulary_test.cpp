#include "engine/backend/cuda/kernels/cross_entropy.cuh"
#include "engine/backend/cuda/kernels/embedding.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using cuda::enqueue;

namespace {

// Ids of [0, vocabulary), some again and again.
Values some_ids(std::int64_t count, std::int64_t vocabulary) {
  Values ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<double>(i % 3 == 0 ? 7 % vocabulary : i * 29 % vocabulary));
  return ids;
}

constexpr std::int64_t kColumns[] = {1, 31, 33, 256, 1027};

}  // namespace

TEST_CASE("row_max passes over NaN and over columns that pad the vocabulary") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kColumns)
      for (std::int64_t valid : {n, n / 2, std::int64_t{0}}) {
        CAPTURE(name_of(type), n, valid);
        check_kernel({0, 0}, [&](KernelCase& c) {
          return ops::RowMax{c.in({6, n}, type), c.out({6}), valid};
        });
      }
  check_kernel({0, 0}, [&](KernelCase& c) {
    return ops::RowMax{c.values({1, 4}, DType::f32, {std::nan(""), -3, -2, std::nan("")}), c.out({1}), 4};
  });
}

TEST_CASE("exp_sum: local targets, foreign targets, exponentials kept in place or not") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kColumns)
      for (int kind = 0; kind < 3; ++kind) {
        if (kind == 2 && type != DType::f32) continue;
        CAPTURE(name_of(type), n, kind);
        check_kernel({5e-6, 1e-6}, [&](KernelCase& c) {
          const std::int64_t rows = 6, valid = kind == 1 ? n : n - n / 4;
          const Tensor logits = c.in({rows, n}, type, -3, 3), max = c.in({rows}, DType::f32, 2.5, 3);
          const Tensor targets = c.values({rows}, DType::i64, some_ids(rows, 2 * n));
          ops::ExpSum op{logits, max, targets, n / 3, valid, c.out({rows}), c.out({rows}), Tensor()};
          if (kind == 1) op.exp = c.out({rows, n});
          if (kind == 2) op.exp = c.result(logits);
          return op;
        });
      }
}

TEST_CASE("cross_entropy_loss, weighted and not") {
  for (std::int64_t rows : {1, 33, 2500})
    for (bool weighted : {false, true})
      check_kernel({1e-6, 0}, [&](KernelCase& c) {
        return ops::CrossEntropyLoss{c.in({rows}, DType::f32, 1, 100), c.in({rows}, DType::f32, -5, 0),
                                     weighted ? c.in({rows}, DType::f32, 0, 1) : Tensor(), 0.01f, c.out({1})};
      });
}

TEST_CASE("cross_entropy_grad from logits or from their exponentials") {
  for (DType type : kFloatTypes)
    for (DType to : kFloatTypes)
      for (std::int64_t n : kColumns)
        for (bool from_exp : {false, true}) {
          if (from_exp && type != DType::f32) continue;
          CAPTURE(name_of(type), name_of(to), n, from_exp);
          check_kernel(rounding(to, 1e-7), [&](KernelCase& c) {
            const std::int64_t rows = 5;
            const Tensor from = c.in({rows, n}, type, from_exp ? 0 : -3, from_exp ? 1 : 3);
            ops::CrossEntropyGrad op;
            (from_exp ? op.exp : op.logits) = from;
            if (!from_exp) op.max = c.in({rows}, DType::f32, 2, 3);
            op.sum = c.in({rows}, DType::f32, 20, 30);
            op.targets = c.values({rows}, DType::i64, some_ids(rows, n + 2));
            if (n > 100) op.weight = c.in({rows}, DType::f32, 0, 1);
            op.scale = 0.25f, op.first_column = 1, op.valid = n - n / 5;
            op.dlogits = type == to ? c.result(from) : c.out({rows, n}, to);
            return op;
          });
        }
}

TEST_CASE("embedding: rows of a shard, foreign ids, and sums onto what is there") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kColumns)
      for (bool accumulate : {false, true}) {
        CAPTURE(name_of(type), n, accumulate);
        check_kernel({0, 0}, [&](KernelCase& c) {
          const Tensor ids = c.values({3, 5}, DType::i64, some_ids(15, 40)), table = c.in({20, n}, type);
          const Shape shape{3, 5, n};
          return ops::Embedding{ids, table, accumulate ? c.inout(shape, type) : c.out(shape, type), 6,
                                accumulate};
        });
      }
}

TEST_CASE("embedding_grad adds the rows of an id in their order") {
  for (DType type : kFloatTypes)
    for (DType to : {DType::f32, type})
      for (std::int64_t n : kColumns)
        for (std::int64_t count : {1, 40, 600}) {
          if (count == 600 && (n != 33 || type == DType::f16)) continue;
          CAPTURE(name_of(type), name_of(to), n, count);
          // The CPU rounds a 16-bit table after every row, the kernel once: as many roundings of difference.
          const double rounds = to == DType::f32 ? 1 : static_cast<double>(count) / 2;
          check_kernel({epsilon(to), epsilon(to) * rounds * 2}, [&](KernelCase& c) {
            const Tensor ids = c.values({count}, DType::i64, some_ids(count, 50)),
                         dy = c.in({count, n}, type);
            return ops::EmbeddingGrad{ids, dy, c.inout({30, n}, to), 5};
          });
        }
}
