// Attention without kept probabilities, which on GPUs is cuDNN's. Needs a GPU.
#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::test;

namespace {

// Attention without kept probabilities and its gradient, on tensors that lie as the engine's do.
struct FusedAttention {
  std::int64_t batch, heads, seq, head_dim;
  bool causal, padded;
  DType type;

  void run(Tensors& t, Device& device) const {
    const std::int64_t d = head_dim;
    const auto part = [&](const Tensor& x, std::int64_t i) {
      return ops::Matrix(x, seq, d, batch * heads * 3 * d, i * d, 3 * d);
    };
    const auto whole = [&](const Tensor& x) { return ops::Matrix(x, seq, d, batch * heads * d, 0, d); };
    const Shape hidden{seq, batch, heads * d}, packed{seq, batch, heads, 3 * d};
    ops::AttentionShape s;
    s.batch = batch, s.heads = heads, s.seq = seq, s.head_dim = d;
    s.scale = 1 / std::sqrt(static_cast<float>(d)), s.causal = causal;
    Values keep;  // all of the first sample, somewhat more than half of the others
    for (std::int64_t i = 0; i < batch * seq; ++i) keep.push_back(i < seq || i % seq < seq / 2 + 3);
    if (padded) s.keep = t.values({batch, seq}, DType::u8, keep);
    // Values up to 2: probabilities are far from equal, some keys have nearly all.
    const Tensor qkv = t.in(packed, type, -2, 2), out = t.out(hidden, type);
    const Tensor lse = t.out({batch, heads, seq});
    mbench::run(device, ops::Attention{s, part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse, Tensor()});
    const Tensor dout = t.in(hidden, type), dqkv = t.out(packed, type);
    mbench::run(device, ops::AttentionGrad{s, whole(dout), part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse,
                                           Tensor(), part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)});
  }
  std::string label() const {
    return fmt::format("fused attention {} x {} x {} x {} {}{}{}", batch, heads, seq, head_dim, name_of(type),
                       causal ? " causal" : "", padded ? " padded" : "");
  }
};

std::vector<FusedAttention> fused_attentions() {
  struct Sizes {
    std::int64_t batch, heads, seq, head_dim;
  };
  std::vector<FusedAttention> all;
  for (const Sizes& z : {Sizes{2, 4, 512, 64}, Sizes{2, 3, 1000, 80}, Sizes{3, 2, 512, 96}, Sizes{2, 2, 1000, 128},
                         Sizes{1, 2, 2048, 64}, Sizes{1, 1, 4096, 128}})
    for (const DType t : {DType::bf16, DType::f16}) {
      if (t == DType::f16 && z.head_dim != 128)
        continue;  // the same kernels but for the type, and a plan takes a second
      for (const auto& [causal, padded] : {std::pair(true, false), {false, false}, {false, true}})
        all.push_back({z.batch, z.heads, z.seq, z.head_dim, causal, padded, t});
    }
  all.push_back({1, 9, 4096, 64, true, false, DType::bf16});  // its gradient in two pieces
  return all;
}

bool has_cudnn() {
  return cuda_libraries().find("no cuDNN") == std::string::npos;
}

}  // namespace

// Both sum in f32, but cuDNN rounds probabilities and score gradients to 16 bits before it multiplies them,
// which the CPU does not. For scale: on the CPU, attention op by op, which rounds these two and scores and
// gradients of probabilities besides, is at most 0.97 of this tolerance away from fused attention.
//
// One device for all: its plans, of which each takes cuDNN about a second to compile, serve the second look too.
TEST_CASE("fused attention agrees with the CPU, and it and its gradient give the same bits twice", "[cudnn]") {
  if (!has_cudnn()) {
    WARN("not checked: " << cuda_libraries());
    return;
  }
  Twin twin;
  std::size_t turn = 0;  // of a third of them, each mask in its turn
  for (const FusedAttention& a : fused_attentions()) {
    INFO(a.label());
    twin.compare(
        a.label(), [&](Tensors& t, Device& device) { a.run(t, device); }, 4);
    if (const std::size_t now = turn++; now % 3 != now / 3 % 3) continue;
    Tensors first(twin.gpu()), second(twin.gpu());
    a.run(first, twin.gpu());
    a.run(second, twin.gpu());
    for (const std::size_t i : first.results()) {
      const bool same_bits = first.bits(i) == second.bits(i);
      CHECK(same_bits);
    }
  }
}

TEST_CASE("what fused attention on a GPU cannot do is unsupported") {
  const auto gpu = open_device("cuda", 0);
  Tensors t(*gpu);
  ops::AttentionShape shape;
  shape.batch = shape.heads = 1, shape.seq = shape.head_dim = 8;
  const auto attend = [&](DType type, float dropout) {
    const auto m = [&] { return ops::Matrix(t.in({8, 8}, type)); };
    shape.dropout = {dropout, {1234, 5, 6}};
    mbench::run(*gpu, ops::Attention{shape, m(), m(), m(), m(), t.out({1, 1, 8}), Tensor()});
  };
  if (!has_cudnn()) {
    CHECK_THROWS_WITH(attend(DType::bf16, 0), Catch::Contains("needs cuDNN"));
    return;
  }
  CHECK_THROWS_WITH(attend(DType::f32, 0), Catch::Contains("got precision f32"));
  CHECK_THROWS_WITH(attend(DType::bf16, 0.1f), Catch::Contains("got dropout 0.1"));
}
