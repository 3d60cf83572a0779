#include "engine/ops/attention.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::AttentionShape;
using ops::Matrix;

namespace {

// q, k and v interleaved in one [seq, batch, heads, 3, head_dim] tensor, as a fused projection leaves them.
Matrix view(const Tensor& packed, const AttentionShape& s, int which, int parts) {
  const std::int64_t width = s.heads * parts * s.head_dim;
  return Matrix(packed, s.seq, s.head_dim, s.batch * width, which * s.head_dim, parts * s.head_dim);
}

Values attend(OpTest& test, const AttentionShape& s, const Values& qkv) {
  const Tensor packed = test.put({s.seq, s.batch, s.heads * 3, s.head_dim}, DType::f32, qkv),
               out = test.garbage({s.seq, s.batch, s.heads, s.head_dim}), lse = test.garbage({s.batch, s.heads, s.seq});
  test.run(ops::Attention{s, view(packed, s, 0, 3), view(packed, s, 1, 3), view(packed, s, 2, 3), view(out, s, 0, 1),
                          lse, Tensor()});
  return OpTest::get(out);
}

}  // namespace

TEST_CASE("a shard of the heads and samples computes what the whole does") {
  OpTest test;
  const AttentionShape whole{2, 4, 33, 8, 0.4f, true, {}, {0.2f, {7, 3, 1}}, {4, 0, 0}};
  const Values qkv = uniform(33 * 2 * 4 * 24, -1, 1, 1), out = attend(test, whole, qkv);
  AttentionShape part = whole;  // heads 2 and 3 of sample 1
  part.batch = 1, part.heads = 2, part.map = {4, 2, 1};
  Values mine, want;
  for (std::int64_t s = 0; s < 33; ++s) {
    mine.insert(mine.end(), qkv.begin() + ((s * 2 + 1) * 4 + 2) * 24, qkv.begin() + ((s * 2 + 1) * 4 + 4) * 24);
    want.insert(want.end(), out.begin() + ((s * 2 + 1) * 4 + 2) * 8, out.begin() + ((s * 2 + 1) * 4 + 4) * 8);
  }
  check_close(attend(test, part, mine), want, 1e-6, 1e-7);
}

TEST_CASE("a NaN in a query reaches its row of the output") {
  OpTest test;
  Values qkv = uniform(6 * 2 * 12, -1, 1, 1);
  qkv[2 * 24] = std::nan("");  // position 2, head 0, q
  const Values out = attend(test, {1, 2, 6, 4, 0.4f, true, {}, {}, {}}, qkv);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i / 8 == 2 && i % 8 < 4));
}
