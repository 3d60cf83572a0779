// What attention keeps of its scores, on the emulator.
#include "engine/backend/cuda/attention/attention.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;

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
  Tensors t(test.device, {1});
  ops::Attention op;
  op.probs = t.in({z.batch, z.heads, z.seq, z.seq}, type, -6, 6);
  Values keep;
  for (std::int64_t i = 0; i < z.batch * z.seq; ++i) keep.push_back(i % 3 != 0 && i >= z.seq / 2);
  op.shape.batch = z.batch, op.shape.heads = z.heads, op.shape.seq = z.seq;
  op.shape.scale = 0.7f, op.shape.causal = z.causal;
  if (z.padded) op.shape.keep = t.values({z.batch, z.seq}, DType::u8, keep);
  op.lse = t.out({z.batch, z.heads, z.seq});
  cuda::EmulatedStream stream(order);
  enqueue_statistics(stream, op);
  CHECK(t.trespass() == "");
  check_close(OpTest::get(op.lse), reference(z, OpTest::get(op.probs), keep, op.shape.scale), 1e-5, 2e-5);
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
  ops::Attention op;
  op.shape.batch = op.shape.heads = 1, op.shape.seq = 2;
  op.probs = test.put({1, 1, 2, 2}, DType::f32, {std::nan(""), std::nan(""), 1, 1});
  op.lse = test.garbage({1, 1, 2});
  cuda::EmulatedStream stream;
  enqueue_statistics(stream, op);
  check_close(OpTest::get(op.lse), {std::nan(""), 1 + std::log(2.0)}, 1e-6, 0);
}
