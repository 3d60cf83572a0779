#include "engine/backend/cuda/attention/flash_shape.h"
#include "engine/backend/cuda/attention/padding.cuh"
#include "test/engine/backend/cuda/kernel_test.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {

std::vector<std::uint8_t> first_kept(const std::vector<std::int64_t>& lengths, std::int64_t seq) {
  std::vector<std::uint8_t> keep;
  for (const std::int64_t length : lengths)
    for (std::int64_t k = 0; k < seq; ++k) keep.push_back(k < length ? 1 : 0);
  return keep;
}

ops::AttentionShape shape_of(OpTest& test, std::int64_t batch, std::int64_t heads, std::int64_t seq, std::int64_t d,
                             const std::vector<std::uint8_t>& keep) {
  ops::AttentionShape s;
  s.batch = batch, s.heads = heads, s.seq = seq, s.head_dim = d;
  s.keep = test.put_integers<std::uint8_t>({batch, seq}, DType::u8, keep);
  return s;
}

// Keys and queries that the kernel counts, between guards.
std::vector<std::int32_t> counted(const ops::AttentionShape& s) {
  const auto n = static_cast<std::size_t>(s.batch);
  std::vector<std::int32_t> both(2 * n + 2, -7);
  cuda::EmulatedStream stream;
  cuda::enqueue_count_keys(stream, "attention", s, both.data() + 1, both.data() + 1 + n);
  CHECK(both.front() == -7);
  CHECK(both.back() == -7);
  return {both.begin() + 1, both.end() - 1};
}

// An op on [seq, batch, heads, 3 d] as the engine lays qkv out.
ops::AttentionGrad gradient_into(const ops::AttentionShape& s, const Tensor& dqkv) {
  const std::int64_t d = s.head_dim;
  const auto part = [&](std::int64_t i) {
    return ops::Matrix(dqkv, s.seq, d, s.batch * s.heads * 3 * d, i * d, 3 * d);
  };
  ops::AttentionGrad op;
  op.shape = s;
  op.q = op.dq = part(0), op.k = op.dk = part(1), op.v = op.dv = part(2);
  return op;
}

}  // namespace

TEST_CASE("kept keys are counted for each sample") {
  for (const std::int64_t seq : {1, 31, 32, 33, 1000}) {
    OpTest test;
    const std::vector<std::int64_t> lengths{1, seq, (seq + 1) / 2, std::max<std::int64_t>(1, seq - 1)};
    const auto got = counted(shape_of(test, 4, 2, seq, 8, first_kept(lengths, seq)));
    CAPTURE(seq);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(got[i] == seq);
      CHECK(got[4 + i] == lengths[i]);
    }
  }
}

TEST_CASE("a mask that no number of keys stands for stops the device") {
  const std::int64_t seq = 70;
  for (const auto& [begin, end] : {std::pair<int, int>{1, 70}, {0, 0}, {33, 34}}) {
    std::vector<std::uint8_t> keep(seq, 0);
    std::fill(keep.begin() + begin, keep.begin() + end, std::uint8_t{1});
    OpTest test;
    CHECK_THROWS_WITH(counted(shape_of(test, 1, 1, seq, 8, keep)), Contains("trapped"));
  }
  std::vector<std::uint8_t> hole(seq, 1);
  hole[40] = 0;
  OpTest test;
  CHECK_THROWS_WITH(counted(shape_of(test, 1, 1, seq, 8, hole)), Contains("trapped"));
}

TEST_CASE("gradients of hidden keys become zero and nothing else is touched") {
  for (const DType type : {DType::bf16, DType::f16})
    for (const std::int64_t d : {8, 24, 64})
      for (const std::int64_t first : {0, 1}) {  // an address that vectors do not fit, too
        CAPTURE(name_of(type), d, first);
        const std::int64_t seq = 37, batch = 3, heads = 2, n = seq * batch * heads * 3 * d;
        const std::vector<std::int64_t> lengths{20, seq, 1};
        OpTest test;
        const ops::AttentionShape s = shape_of(test, batch, heads, seq, d, first_kept(lengths, seq));
        const Tensor all = test.put({n + 8}, type, Values(static_cast<std::size_t>(n + 8), 3));
        const Tensor dqkv = all.part(first, {seq, batch, heads, 3 * d});
        cuda::EmulatedStream stream;
        cuda::enqueue_clear_hidden_keys(stream, gradient_into(s, dqkv));
        const Values got = OpTest::get(all);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < n + 8; ++i) {
          const std::int64_t e = i - first, part = e % (3 * d) / d, sample = e / (3 * d * heads) % batch;
          const bool inside = e >= 0 && e < n, hidden = e / (3 * d * heads * batch) >= lengths[sample < 0 ? 0 : sample];
          const double want = inside && part != 0 && hidden ? 0 : 3;
          wrong += got[static_cast<std::size_t>(i)] != want;
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("what fused attention on GPUs cannot do is told with the nearest choice") {
  cuda::FlashShape s;
  s.type = DType::bf16, s.batch = 2, s.heads = 4, s.seq = 1000, s.head_dim = 80;
  CHECK(cuda::why_no_flash(s, 0).value_or("") == "");
  CHECK_THAT(cuda::why_no_flash(s, 0.1f).value_or(""), Contains("got dropout 0.1, need 0 or attention \"core\""));
  s.head_dim = 20;
  CHECK_THAT(cuda::why_no_flash(s, 0).value_or(""), Contains("got head_dim 20, need a multiple of 8"));
  s.head_dim = 64, s.batch = s.heads = 1, s.seq = 1001;
  CHECK_THAT(cuda::why_no_flash(s, 0).value_or(""), Contains("need samples x heads x seq divisible by 4"));
  s.seq = 1000, s.type = DType::f32;
  CHECK_THAT(cuda::why_no_flash(s, 0).value_or(""), Contains("got precision f32") && Contains("need bf16 or fp16"));
}

TEST_CASE("ops that differ in anything a plan depends on have plans of their own") {
  OpTest test;
  const auto op = [&](std::int64_t batch, std::int64_t gap, float scale, bool causal, bool padded, DType type) {
    const std::int64_t seq = 16, heads = 2, d = 8;
    const Tensor qkv = test.empty({seq, batch, heads, 3 * d + gap}, type);
    const ops::Matrix m(qkv, seq, d, batch * heads * (3 * d + gap), 0, 3 * d + gap);
    ops::Attention a;
    a.shape.batch = batch, a.shape.heads = heads, a.shape.seq = seq, a.shape.head_dim = d;
    a.shape.scale = scale, a.shape.causal = causal;
    if (padded) a.shape.keep = test.empty({batch, seq}, DType::u8);
    a.q = a.k = a.v = a.out = m;
    return cuda::flash_shape(a);
  };
  const auto key = op(2, 0, 0.5f, true, false, DType::bf16).key();
  CHECK(key == op(2, 0, 0.5f, true, false, DType::bf16).key());
  CHECK(key != op(1, 0, 0.5f, true, false, DType::bf16).key());
  CHECK(key != op(2, 8, 0.5f, true, false, DType::bf16).key());
  CHECK(key != op(2, 0, 0.25f, true, false, DType::bf16).key());
  CHECK(key != op(2, 0, 0.5f, false, false, DType::bf16).key());
  CHECK(key != op(2, 0, 0.5f, true, true, DType::bf16).key());
  CHECK(key != op(2, 0, 0.5f, true, false, DType::f16).key());
  const Tensor dqkv = test.empty({16, 2, 2, 24}, DType::bf16);
  const ops::AttentionShape s = shape_of(test, 2, 2, 16, 8, first_kept({16, 16}, 16));
  ops::AttentionGrad one = gradient_into(s, dqkv);
  one.out = one.dout = one.q;
  ops::AttentionGrad other = one;
  other.dv.ld += 8;
  CHECK(cuda::flash_shape(one).key() == cuda::flash_shape(one).key());
  CHECK(cuda::flash_shape(one).key() != cuda::flash_shape(other).key());
}
