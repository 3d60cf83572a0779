// Softmax and fused attention against PyTorch: causal, padded, and with dropout from Philox.
#include "test/engine/ops/fixture.h"

using namespace mbench;
using fixture::Bench;
using fixture::cases;

TEST_CASE("softmax and its gradient agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("softmax")) {
    CAPTURE(c.at("name"));
    const Tensor scores = bench.f32(c.at("scores")), dprobs = bench.f32(c.at("dprobs")), probs = bench.like(scores);
    const float scale = c.at("scale");
    const bool causal = c.at("causal");
    const Tensor keep = bench.u8_if(c, "keep"), hidden = bench.u8(c.at("hidden"));
    bench.run(ops::Softmax{scores, probs, scale, causal, {}, keep});
    bench.check("probs", probs, c.at("probs"));
    const Tensor by_mask = bench.like(scores);
    bench.run(ops::Softmax{scores, by_mask, scale, false, hidden, {}});
    bench.check("probs by the mask", by_mask, c.at("probs"));

    const Tensor dscores = bench.like(scores);
    bench.run(ops::SoftmaxGrad{dprobs, probs, dscores, scale, false});
    bench.check("dscores", dscores, c.at("dscores"));
    bench.run(ops::SoftmaxGrad{dprobs, probs, dprobs, scale, causal});
    bench.check("dscores in place", dprobs, c.at("dscores"));

    bench.run(ops::Softmax{scores, scores, scale, causal, {}, keep});
    bench.check("probs in place", scores, c.at("probs"));
  }
}

TEST_CASE("the attention mask of the eager graph hides what PyTorch's hides") {
  Bench bench;
  int built = 0;
  for (const auto& c : cases("softmax")) {
    const bool causal = c.at("causal"), padded = c.contains("keep");
    if (causal == padded) continue;  // the mask is one or the other
    CAPTURE(c.at("name"));
    const Tensor mask = bench.flags(fixture::shape_of(c.at("hidden")));
    bench.run(ops::AttentionMask{bench.u8_if(c, "keep"), mask});
    bench.check_flags("mask", mask, c.at("hidden"));
    ++built;
  }
  CHECK(built >= 3);
}

TEST_CASE("fused attention and its gradients agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("attention")) {
    const std::int64_t batch = c.at("batch"), heads = c.at("heads"), seq = c.at("seq"), dim = c.at("head_dim");
    const Tensor qkv = bench.f32(c.at("qkv")), dout = bench.f32(c.at("dout"));
    ops::AttentionShape shape;
    shape.batch = batch, shape.heads = heads, shape.seq = seq, shape.head_dim = dim;
    shape.scale = c.at("scale");
    shape.causal = c.at("causal");
    shape.keep = bench.u8_if(c, "keep");
    shape.dropout = {c.at("p"), fixture::key_of(c)};
    shape.map = {c.at("global_heads"), c.at("head0"), c.at("sample0")};
    // qkv is [seq, batch, heads, 3, dim], out [seq, batch, heads, dim]; batch index b * heads + a.
    const auto third = [&](const Tensor& t, std::int64_t i) {
      return ops::Matrix(t, seq, dim, batch * heads * 3 * dim, i * dim, 3 * dim);
    };
    const auto merged = [&](const Tensor& t) { return ops::Matrix(t, seq, dim, batch * heads * dim, 0, dim); };

    for (const bool keep_probs : {false, true}) {
      CAPTURE(c.at("name"), keep_probs);
      const Tensor out = bench.like(dout), lse = bench.filled({batch, heads, seq}, Bench::kJunk);
      const Tensor probs = keep_probs ? bench.filled({batch, heads, seq, seq}, Bench::kJunk) : Tensor();
      bench.run(ops::Attention{shape, third(qkv, 0), third(qkv, 1), third(qkv, 2), merged(out), lse, probs});
      bench.check("out", out, c.at("out"));
      bench.check("lse", lse, c.at("lse"));
      if (keep_probs && c.contains("probs")) bench.check("probs", probs, c.at("probs"));

      const Tensor dqkv = bench.like(qkv);
      ops::AttentionGrad grad;
      grad.shape = shape;
      grad.dout = merged(dout);
      grad.q = third(qkv, 0), grad.k = third(qkv, 1), grad.v = third(qkv, 2), grad.out = merged(out);
      grad.lse = lse;
      grad.probs = probs;
      grad.dq = third(dqkv, 0), grad.dk = third(dqkv, 1), grad.dv = third(dqkv, 2);
      bench.run(grad);
      bench.check("dqkv", dqkv, c.at("dqkv"));
    }
  }
}
