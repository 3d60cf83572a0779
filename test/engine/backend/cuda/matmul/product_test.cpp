// The kernels beside cuBLASLt's products: of products over no terms, and of what attention keeps of its
// scores.
#include "engine/backend/cuda/attention/attention.cuh"
#include "engine/backend/cuda/matmul/matmul.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("a product over no terms scales its result and leaves the gaps between rows") {
  for (DType type : kFloatTypes)
    for (std::int64_t n : kWidths)
      for (std::int64_t batch : {1, 3})
        for (float beta : {0.0f, 1.0f, 0.3f}) {
          CAPTURE(name_of(type), n, batch, beta);
          check_kernel({0, 0}, [&](KernelCase& c) {
            const std::int64_t rows = 3, ld = n + 5, stride = rows * ld + 2;
            ops::Matmul op;
            op.a = {c.in({rows, 8}, type), rows, 0, 8};
            op.b = {c.in({8}, type), 0, n, n};
            op.c = {c.inout({batch * stride + 4}, type), rows, n, ld, 4, stride};
            op.batch = batch, op.beta = beta;
            return op;
          });
        }
}

TEST_CASE("where beta is 0 a product over no terms does not look at what was there") {
  check_kernel({0, 0}, [&](KernelCase& c) {
    ops::Matmul op;
    op.a = {c.in({5, 8}, DType::bf16), 5, 0, 8};
    op.b = {c.in({8}, DType::bf16), 0, 7, 7};
    op.c = ops::Matrix(c.out({5, 7}, DType::bf16));
    return op;
  });
}

namespace {

struct Scores {
  std::int64_t batch, heads, seq;
  bool causal, padded;
};

// In double, from the values as they are stored.
Values reference(const Scores& z, const Values& scores, const Values& keep, double scale) {
  Values lse;
  for (std::int64_t row = 0; row < z.batch * z.heads * z.seq; ++row) {
    double sum = 0;
    for (std::int64_t k = 0; k < z.seq; ++k) {
      const bool seen = !(z.causal && k > row % z.seq) &&
                        !(z.padded && keep[static_cast<std::size_t>(row / z.seq / z.heads * z.seq + k)] == 0);
      if (seen) sum += std::exp(scale * scores[static_cast<std::size_t>(row * z.seq + k)]);
    }
    lse.push_back(std::log(sum));  // -infinity where no key is seen
  }
  return lse;
}

void check_statistics(const Scores& z, DType type, simt::Order order) {
  CAPTURE(z.batch, z.heads, z.seq, z.causal, z.padded, name_of(type));
  OpTest test;
  KernelCase c(test, true);
  const Tensor scores = c.in({z.batch, z.heads, z.seq, z.seq}, type, -6, 6);
  Values keep;
  for (std::int64_t i = 0; i < z.batch * z.seq; ++i) keep.push_back(i % 3 != 0 && i >= z.seq / 2);
  ops::Attention op;
  op.shape.batch = z.batch, op.shape.heads = z.heads, op.shape.seq = z.seq;
  op.shape.scale = 0.7f, op.shape.causal = z.causal;
  if (z.padded) op.shape.keep = c.values({z.batch, z.seq}, DType::u8, keep);
  op.lse = c.out({z.batch, z.heads, z.seq});
  op.probs = scores;
  cuda::EmulatedStream stream(order);
  enqueue_statistics(stream, op);
  c.check_guards();
  check_close(OpTest::get(op.lse), reference(z, OpTest::get(scores), keep, op.shape.scale), 1e-5, 2e-5);
}

}  // namespace

TEST_CASE("the log-sum-exp of scores: causal, padded, rows that see no key, more rows than a block's") {
  for (DType type : kFloatTypes)
    for (std::int64_t seq : {1, 31, 33, 130})
      for (const bool causal : {false, true})
        for (const bool padded : {false, true})
          for (const auto order : {simt::Order::ascending, simt::Order::descending})
            check_statistics({2, 3, seq, causal, padded}, type, order);
}

TEST_CASE("the log-sum-exp of a row of NaN is NaN") {
  OpTest test;
  KernelCase c(test, false);
  ops::Attention op;
  op.shape.batch = op.shape.heads = 1, op.shape.seq = 2;
  op.probs = c.values({1, 1, 2, 2}, DType::f32, {std::nan(""), std::nan(""), 1, 1});
  op.lse = c.out({1, 1, 2});
  cuda::EmulatedStream stream;
  enqueue_statistics(stream, op);
  check_close(OpTest::get(op.lse), {std::nan(""), 1 + std::log(2.0)}, 1e-6, 0);
}
