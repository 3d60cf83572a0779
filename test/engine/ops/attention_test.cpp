#include "engine/ops/attention.h"

#include "engine/ops/dropout.h"
#include "engine/ops/softmax.h"
#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;
using ops::AttentionShape;
using ops::Matrix;

namespace {

const RngKey kKey{7, 3, 1};

// q, k and v interleaved in one [seq, batch, heads, 3, head_dim] tensor, as a fused projection leaves them.
Matrix view(const Tensor& packed, const AttentionShape& s, int which, int parts) {
  const std::int64_t width = s.heads * parts * s.head_dim;
  return Matrix(packed, s.seq, s.head_dim, s.batch * width, which * s.head_dim, parts * s.head_dim);
}

struct Case {
  AttentionShape s;
  std::vector<std::uint8_t> keep;
  bool hides(std::int64_t b, std::int64_t q, std::int64_t k) const {
    return (s.causal && k > q) || (!keep.empty() && keep[static_cast<std::size_t>(b * s.seq + k)] == 0);
  }
  double factor(std::int64_t b, std::int64_t a, std::int64_t q, std::int64_t k) const {
    if (s.dropout.p == 0) return 1;
    const std::int64_t e = (((s.map.sample0 + b) * s.map.heads + s.map.head0 + a) * s.seq + q) * s.seq + k;
    const bool kept = Philox::word(kKey, static_cast<std::uint64_t>(e)) >= Philox::drop_bound(s.dropout.p);
    return kept ? 1 / (1 - static_cast<double>(s.dropout.p)) : 0;
  }
};

double at(const Values& v, const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
  return v[static_cast<std::size_t>(m.offset + i * m.batch_stride + r * m.ld + c)];
}

// Output in the layout [seq, batch, heads, head_dim], from q, k and v packed in one vector.
Values reference(const Case& c, const Tensor& packed, const Values& qkv, Values* lse = nullptr,
                 Values* kept = nullptr) {
  const AttentionShape& s = c.s;
  const Matrix q = view(packed, s, 0, 3), k = view(packed, s, 1, 3), v = view(packed, s, 2, 3);
  Values out(static_cast<std::size_t>(s.seq * s.batches() * s.head_dim), 0.0);
  if (lse != nullptr) lse->assign(static_cast<std::size_t>(s.batches() * s.seq), -INFINITY);
  if (kept != nullptr) kept->assign(static_cast<std::size_t>(s.batches() * s.seq * s.seq), 0.0);
  for (std::int64_t i = 0; i < s.batches(); ++i)
    for (std::int64_t r = 0; r < s.seq; ++r) {
      Values p(static_cast<std::size_t>(s.seq), 0.0);
      double top = -INFINITY, sum = 0;
      for (std::int64_t j = 0; j < s.seq; ++j) {
        for (std::int64_t d = 0; d < s.head_dim; ++d)
          p[static_cast<std::size_t>(j)] += s.scale * at(qkv, q, i, r, d) * at(qkv, k, i, j, d);
        if (!c.hides(i / s.heads, r, j)) top = std::max(top, p[static_cast<std::size_t>(j)]);
      }
      for (std::int64_t j = 0; j < s.seq; ++j) {
        double& x = p[static_cast<std::size_t>(j)];
        x = c.hides(i / s.heads, r, j) ? 0 : std::exp(x - top);
        sum += x;
      }
      if (sum > 0 && lse != nullptr) (*lse)[static_cast<std::size_t>(i * s.seq + r)] = top + std::log(sum);
      for (std::int64_t j = 0; j < s.seq && sum > 0; ++j) {
        const double prob = p[static_cast<std::size_t>(j)] / sum;
        if (kept != nullptr) (*kept)[static_cast<std::size_t>((i * s.seq + r) * s.seq + j)] = prob;
        const double weight = prob * c.factor(i / s.heads, i % s.heads, r, j);
        for (std::int64_t d = 0; d < s.head_dim; ++d)
          out[static_cast<std::size_t>((r * s.batches() + i) * s.head_dim + d)] +=
              weight * at(qkv, v, i, j, d);
      }
    }
  return out;
}

Case make_case(OpTest& test, std::int64_t batch, std::int64_t heads, std::int64_t seq, std::int64_t dim,
               bool causal, bool padded, float p) {
  Case c;
  c.s = {batch, heads, seq, dim, 0.4f, causal, {}, {p, kKey}, {heads + 3, 2, 5}};
  if (padded) {
    c.keep.resize(static_cast<std::size_t>(batch * seq));
    for (std::size_t i = 0; i < c.keep.size(); ++i)
      c.keep[i] = i % 4 != 0;  // with `causal`: query 0 sees no key
    c.s.keep = test.bytes({batch, seq}, c.keep);
  }
  return c;
}

struct Forward {
  Tensor packed, out, lse, probs;
};

Forward run_forward(OpTest& test, const Case& c, const Tensor& packed, bool keep_probs) {
  const AttentionShape& s = c.s;
  const DType type = packed.dtype();
  Forward f{packed,
            test.garbage({s.seq, s.batch, s.heads, s.head_dim}, type),
            test.garbage({s.batch, s.heads, s.seq}),
            {}};
  if (keep_probs) f.probs = test.garbage({s.batch, s.heads, s.seq, s.seq}, type);
  test.run(ops::Attention{s, view(packed, s, 0, 3), view(packed, s, 1, 3), view(packed, s, 2, 3),
                          view(f.out, s, 0, 1), f.lse, f.probs});
  return f;
}

Tensor run_backward(OpTest& test, const Case& c, const Forward& f, const Tensor& dout) {
  const AttentionShape& s = c.s;
  const Tensor d = test.garbage(f.packed.shape(), f.packed.dtype());
  test.run(ops::AttentionGrad{s, view(dout, s, 0, 1), view(f.packed, s, 0, 3), view(f.packed, s, 1, 3),
                              view(f.packed, s, 2, 3), view(f.out, s, 0, 1), f.lse, f.probs, view(d, s, 0, 3),
                              view(d, s, 1, 3), view(d, s, 2, 3)});
  return d;
}

Shape packed_shape(const Case& c) {
  return {c.s.seq, c.s.batch, c.s.heads * 3, c.s.head_dim};
}

}  // namespace

TEST_CASE("attention agrees with the reference under every mask and dropout") {
  for (DType type : kFloatTypes)
    for (int flags = 0; flags < 16; ++flags) {
      const bool causal = flags & 1, padded = flags & 2, drops = flags & 4, keep_probs = flags & 8;
      CAPTURE(name_of(type), causal, padded, drops, keep_probs);
      OpTest test;
      const Case c = make_case(test, 2, 3, 41, 10, causal, padded, drops ? 0.2f : 0.0f);
      const Forward f = run_forward(test, c, test.random(packed_shape(c), type, 1, -2, 2), keep_probs);
      Values lse, probs;
      const Values want = reference(c, f.packed, OpTest::get(f.packed), &lse, &probs);
      check_close(OpTest::get(f.out), want, epsilon(type), 2e-6);
      check_close(OpTest::get(f.lse), lse, 1e-6, 2e-6);
      if (keep_probs) check_close(OpTest::get(f.probs), probs, epsilon(type) + 2e-6, 1e-7);
    }
}

TEST_CASE("attention is right across the borders of its blocks, with fewer heads than threads too") {
  for (std::int64_t heads : {1, 4})
    for (std::int64_t seq : {127, 129, 300}) {
      CAPTURE(heads, seq);
      OpTest test;
      const Case c = make_case(test, 1, heads, seq, 16, true, false, 0.1f);
      const Forward f = run_forward(test, c, test.random(packed_shape(c), DType::f32, 1, -2, 2), false);
      check_close(OpTest::get(f.out), reference(c, f.packed, OpTest::get(f.packed)), 1e-6, 3e-6);
    }
}

TEST_CASE("attention_grad agrees with finite differences") {
  for (int flags = 0; flags < 16; ++flags) {
    const bool causal = flags & 1, padded = flags & 2, drops = flags & 4, keep_probs = flags & 8;
    CAPTURE(causal, padded, drops, keep_probs);
    OpTest test;
    const Case c = make_case(test, 2, 2, 7, 3, causal, padded, drops ? 0.3f : 0.0f);
    const Forward f =
        run_forward(test, c, test.random(packed_shape(c), DType::f32, 1, -1.5, 1.5), keep_probs);
    const Tensor dout = test.random(f.out.shape(), DType::f32, 2);
    const Values w = OpTest::get(dout);
    const Values want = differences([&](const Values& qkv) { return dot(reference(c, f.packed, qkv), w); },
                                    OpTest::get(f.packed));
    check_close(OpTest::get(run_backward(test, c, f, dout)), want, 1e-5, 3e-6);
  }
}

TEST_CASE("attention_grad over several blocks agrees with the eager ops") {
  for (bool causal : {false, true})
    for (const auto& [heads, dim] : {std::pair<std::int64_t, std::int64_t>{1, 8},
                                     {3, 8},
                                     {1, 64},
                                     {2, 33},
                                     {2, 48},
                                     {3, 64},
                                     {2, 80},
                                     {2, 128}}) {
      CAPTURE(causal, heads, dim);
      OpTest test;
      Case c = make_case(test, 1, heads, 290, dim, causal, false, 0.1f);
      c.s.scale = 1 / std::sqrt(static_cast<float>(dim));
      const AttentionShape& s = c.s;
      const Forward f = run_forward(test, c, test.random(packed_shape(c), DType::f32, 1, -1, 1), false);
      const Tensor dout = test.random(f.out.shape(), DType::f32, 2);
      const Values got = OpTest::get(run_backward(test, c, f, dout));
      check_close(OpTest::get(f.out), reference(c, f.packed, OpTest::get(f.packed)), 1e-6, 3e-6);

      const Shape square{1, heads, s.seq, s.seq};
      const Matrix q = view(f.packed, s, 0, 3), k = view(f.packed, s, 1, 3), v = view(f.packed, s, 2, 3);
      const Tensor d = test.garbage(f.packed.shape()), probs = test.empty(square),
                   dropped = test.empty(square);
      const auto scores = [&](const Tensor& t) { return Matrix(t, s.seq, s.seq, s.seq, 0, s.seq * s.seq); };
      test.run(ops::Matmul{q, k.t(), scores(probs), heads});
      test.run(ops::Softmax{probs, probs, s.scale, causal, {}, {}});
      test.run(ops::Dropout{probs, dropped, {}, s.dropout, s.map});
      test.run(ops::Matmul{scores(dropped).t(), view(dout, s, 0, 1), view(d, s, 2, 3), heads});
      test.run(ops::Matmul{view(dout, s, 0, 1), v.t(), scores(dropped), heads});
      test.run(ops::DropoutGrad{dropped, dropped, {}, s.dropout, s.map});
      test.run(ops::SoftmaxGrad{dropped, probs, dropped, s.scale, causal});
      test.run(ops::Matmul{scores(dropped), k, view(d, s, 0, 3), heads});
      test.run(ops::Matmul{scores(dropped).t(), q, view(d, s, 1, 3), heads});
      check_close(got, OpTest::get(d), 1e-4, 1e-5);
    }
}

TEST_CASE("attention_grad in 16 bits agrees with f32, kept probabilities or not") {
  for (DType type : {DType::bf16, DType::f16})
    for (bool keep_probs : {false, true}) {
      CAPTURE(name_of(type), keep_probs);
      OpTest test;
      const Case c = make_case(test, 2, 2, 50, 8, true, true, 0.1f);
      const Tensor packed = test.random(packed_shape(c), type, 1);
      const Forward f = run_forward(test, c, packed, keep_probs);
      const Forward wide = run_forward(test, c, test.as_f32(packed), false);
      const Tensor dout = test.random(f.out.shape(), type, 2);
      check_close(OpTest::get(run_backward(test, c, f, dout)),
                  OpTest::get(run_backward(test, c, wide, test.as_f32(dout))), 4 * epsilon(type),
                  2 * epsilon(type));
    }
}

TEST_CASE("a shard of the heads and samples computes what the whole does") {
  OpTest test;
  Case c = make_case(test, 2, 4, 33, 8, true, false, 0.2f);
  c.s.map = {4, 0, 0};
  const Forward f = run_forward(test, c, test.random(packed_shape(c), DType::f32, 1), false);
  const Values packed = OpTest::get(f.packed), out = OpTest::get(f.out);
  Case part = c;  // heads 2 and 3 of sample 1
  part.s.batch = 1;
  part.s.heads = 2;
  part.s.map = {4, 2, 1};
  Values mine, want;
  for (std::int64_t s = 0; s < 33; ++s) {
    mine.insert(mine.end(), packed.begin() + ((s * 2 + 1) * 4 + 2) * 24,
                packed.begin() + ((s * 2 + 1) * 4 + 4) * 24);
    want.insert(want.end(), out.begin() + ((s * 2 + 1) * 4 + 2) * 8, out.begin() + ((s * 2 + 1) * 4 + 4) * 8);
  }
  const Forward g = run_forward(test, part, test.put(packed_shape(part), DType::f32, mine), false);
  check_close(OpTest::get(g.out), want, 1e-6, 1e-7);
}

TEST_CASE("a NaN in a query reaches its row of the output") {
  OpTest test;
  const Case c = make_case(test, 1, 2, 6, 4, true, false, 0);
  Values v = uniform(packed_shape(c).numel(), -1, 1, 1);
  v[2 * 24] = std::nan("");  // position 2, head 0, q
  const Forward f = run_forward(test, c, test.put(packed_shape(c), DType::f32, v), false);
  const Values out = OpTest::get(f.out);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i / 8 == 2 && i % 8 < 4));
}
