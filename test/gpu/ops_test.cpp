// Every op on the GPU against the same op on the CPU, whose own tests hold it to references in double. Needs
// a GPU.
#include <fmt/format.h>

#include <cmath>

#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::test;

namespace {

// Rows and columns: single elements, ragged rows, rows of whole vectors, rows longer than a block's
// registers.
const std::vector<Shape> kRows = {{1, 1},    {3, 31},    {7, 33},   {2, 255},
                                  {5, 1027}, {64, 1024}, {9, 4096}, {2, 50257}};

std::string label(std::string_view op, const Shape& shape, DType type) {
  return fmt::format("{} {} {}", op, shape.str(), name_of(type));
}

template <class F>
void for_rows(F&& f) {
  for (const Shape& shape : kRows)
    for (const DType type : kFloatTypes) f(shape, type);
}

const RngKey kKey{1234, 5, 6};

}  // namespace

TEST_CASE("elementwise ops agree with the CPU") {
  Twin twin;
  for_rows([&](const Shape& s, DType t) {
    const Shape row{s[1]};
    twin.compare(label("add", s, t), [&](Inputs& in) {
      in.run(ops::Add{in.floats(s, t), in.floats(s, t), in.garbage(s, t)});
    });
    twin.compare(label("tanh", s, t), [&](Inputs& in) {
      in.run(ops::Tanh{in.floats(s, t, -3, 3), in.garbage(s, t)});
    });
    twin.compare(label("tanh_grad", s, t), [&](Inputs& in) {
      in.run(ops::TanhGrad{in.floats(s, t), in.floats(s, t), in.garbage(s, t)});
    });
    twin.compare(label("bias_add", s, t), [&](Inputs& in) {
      in.run(ops::BiasAdd{in.floats(s, t), in.floats(row, t), in.garbage(s, t)});
    });
    for (const bool bias : {true, false}) {
      twin.compare(label("bias_gelu", s, t), [&](Inputs& in) {
        in.run(ops::BiasGelu{in.floats(s, t, -3, 3), bias ? in.floats(row, t) : Tensor(), in.garbage(s, t)});
      });
      twin.compare(label("bias_gelu_grad", s, t), [&](Inputs& in) {
        const Tensor dy = in.floats(s, t), x = in.floats(s, t, -3, 3);
        in.run(ops::BiasGeluGrad{dy, x, bias ? in.floats(row, t) : Tensor(), in.garbage(s, t)});
      });
    }
    for (const DType to : kFloatTypes)
      twin.compare(label("copy", s, t), [&](Inputs& in) {
        in.run(ops::Copy{in.floats(s, t), in.garbage(s, to), 0.75f});
      });
    twin.compare(label("fill", s, t), [&](Inputs& in) { in.run(ops::Fill{in.garbage(s, t), 0.5f}); });
  });
}

TEST_CASE("views that start anywhere agree with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const std::int64_t skip : {1, 3, 8}) {
      twin.compare("add of parts", [&](Inputs& in) {
        const Shape part{1021};
        const auto view = [&](const Tensor& x) { return x.part(skip, part); };
        in.run(ops::Add{view(in.floats({1040}, t)), view(in.floats({1040}, t)), view(in.floats({1040}, t))});
      });
      twin.compare("layer_norm of a part", [&](Inputs& in) {
        const Shape part{2, 512}, row{512};
        const Tensor x = in.floats({1040}, t).part(skip, part);
        in.run(ops::LayerNorm{x, in.floats(row, t), in.floats(row, t), in.floats({1040}, t).part(skip, part),
                              in.garbage({2}), in.garbage({2})});
      });
    }
}

TEST_CASE("reductions over rows and columns agree with the CPU") {
  Twin twin;
  for_rows([&](const Shape& s, DType t) {
    const Shape row{s[1]}, column{s[0]};
    for (const DType wide : {DType::f32, t}) {
      twin.compare(label("bias_grad", s, t), [&](Inputs& in) {
        in.run(ops::BiasGrad{in.floats(s, t), in.floats(row, wide)});
      });
      for (const bool residual : {true, false})
        twin.compare(
            label("layer_norm and its gradient", s, t),
            [&](Inputs& in) {
              const Tensor x = in.floats(s, t, -2, 3), gamma = in.floats(row, t, 0.5f, 1.5f),
                           beta = in.floats(row, t);
              const Tensor mean = in.garbage(column), rstd = in.garbage(column);
              in.run(ops::LayerNorm{x, gamma, beta, in.garbage(s, t), mean, rstd});
              const Tensor dy = in.floats(s, t), by_pass = residual ? in.floats(s, t) : Tensor();
              in.run(ops::LayerNormGrad{dy, x, mean, rstd, gamma, by_pass, in.garbage(s, t),
                                        in.floats(row, wide), in.floats(row, wide)});
            },
            4);
    }
    twin.compare(label("sum_squares", s, t), [&](Inputs& in) {
      in.run(ops::SumSquares{in.floats(s, t), in.floats({1}, DType::f32)});
    });
    twin.compare(label("row_max", s, t), [&](Inputs& in) {
      in.run(ops::RowMax{in.floats(s, t), in.garbage(column), s[1] - s[1] / 7});
    });
  });
}

TEST_CASE("dropout draws the CPU's masks") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const Shape& s : {Shape{5, 3, 33}, Shape{16, 2, 1024}, Shape{1, 1, 1}}) {
      const ops::HiddenMap map{64, 7, 3};
      const ops::DropoutSpec dropout{0.1f, kKey};
      for (const bool stored : {true, false}) {
        twin.compare(label("dropout", s, t), [&](Inputs& in) {
          in.run(ops::Dropout{in.floats(s, t), in.garbage(s, t), stored ? in.bytes(s, 0.5) : Tensor(),
                              dropout, map});
        });
        twin.compare(label("dropout_grad", s, t), [&](Inputs& in) {
          const Tensor dy = in.floats(s, t);
          in.run(ops::DropoutGrad{dy, in.garbage(s, t), stored ? in.bytes(s, 0.9) : Tensor(), dropout, map});
        });
        twin.compare(label("bias_dropout_add", s, t), [&](Inputs& in) {
          const Tensor x = in.floats(s, t), bias = stored ? in.floats({s[2]}, t) : Tensor(),
                       residual = in.floats(s, t);
          in.run(ops::BiasDropoutAdd{x, bias, residual, in.garbage(s, t),
                                     stored ? in.bytes(s, 0.5) : Tensor(), dropout, map});
        });
      }
    }
  for (const Shape& s : {Shape{2, 3, 17, 17}, Shape{1, 4, 128, 128}})
    twin.compare("dropout of probabilities", [&](Inputs& in) {
      in.run(ops::Dropout{in.floats(s, DType::bf16),
                          in.garbage(s, DType::bf16),
                          Tensor(),
                          {0.1f, kKey},
                          ops::HeadMap{16, 4, 2}});
    });
  twin.compare("random_normal", [&](Inputs& in) {
    in.run(ops::RandomNormal{in.garbage({37, 129}), 0.02f, kKey, 1000, 11, 5});
  });
}

TEST_CASE("softmax and its gradient agree with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const Shape& s :
         {Shape{2, 3, 17, 17}, Shape{2, 2, 128, 128}, Shape{1, 2, 33, 1024}, Shape{1, 1, 3, 5000}}) {
      const bool square = s[2] == s[3];
      for (const bool causal : {false, true}) {
        if (causal && !square) continue;
        twin.compare(
            label("softmax", s, t),
            [&](Inputs& in) {
              ops::Softmax op{in.floats(s, t, -4, 4), in.garbage(s, t), 0.7f, causal};
              if (!causal) op.keep = in.bytes({s[0], s[3]}, 0.8);
              in.run(op);
              in.run(ops::SoftmaxGrad{in.floats(s, t), op.probs, in.garbage(s, t), 0.7f, causal});
            },
            2);
      }
      if (!square) continue;
      for (const std::int64_t masks : {std::int64_t{1}, s[0]})
        twin.compare(label("softmax with a mask", s, t), [&](Inputs& in) {
          ops::Softmax op{in.floats(s, t, -4, 4), in.garbage(s, t), 0.7f, false};
          op.mask = in.bytes({masks, s[2], s[3]}, 0.3);
          in.run(op);
        });
    }
  twin.compare("attention_mask", [&](Inputs& in) {
    in.run(ops::AttentionMask{Tensor(), in.bytes({1, 65, 65}, 0.5)});
    in.run(ops::AttentionMask{in.bytes({3, 65}, 0.7), in.bytes({3, 65, 65}, 0.5)});
  });
}

TEST_CASE("embedding and its gradient agree with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const std::int64_t n : {std::int64_t{8}, std::int64_t{33}, std::int64_t{1024}})
      for (const bool accumulate : {false, true}) {
        twin.compare("embedding", [&](Inputs& in) {
          const Tensor ids = in.ids({7, 5}, 100), table = in.floats({60, n}, t), y = in.floats({7, 5, n}, t);
          in.run(ops::Embedding{ids, table, y, 20, accumulate});
        });
        twin.compare(
            "embedding_grad",
            [&](Inputs& in) {
              const Tensor ids = in.ids({70, 5}, 100), dy = in.floats({70, 5, n}, t);
              in.run(ops::EmbeddingGrad{ids, dy, in.floats({60, n}, accumulate ? DType::f32 : t), 20});
            },
            4);
      }
}

TEST_CASE("cross entropy agrees with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const std::int64_t n : {std::int64_t{31}, std::int64_t{1024}, std::int64_t{25216}})
      for (const bool kept : {false, true})
        twin.compare(
            fmt::format("cross entropy of {} words, {}", n, name_of(t)),
            [&](Inputs& in) {
              const std::int64_t rows = 21, valid = n - n / 9;
              const Shape column{rows};
              const Tensor logits = in.floats({rows, n}, t, -5, 5), targets = in.ids(column, valid);
              const Tensor max = in.garbage(column), sum = in.garbage(column), target = in.garbage(column);
              const Tensor exp = kept ? in.garbage({rows, n}) : Tensor(),
                           weight = in.floats(column, DType::f32, 0, 1);
              in.run(ops::RowMax{logits, max, valid});
              in.run(ops::ExpSum{logits, max, targets, 0, valid, sum, target, exp});
              in.run(ops::CrossEntropyLoss{sum, target, weight, 0.1f, in.garbage({1})});
              ops::CrossEntropyGrad grad;
              if (kept)
                grad.exp = exp;
              else
                grad.logits = logits;
              grad.max = max, grad.sum = sum, grad.targets = targets, grad.weight = weight;
              grad.scale = 0.5f, grad.valid = valid;
              grad.dlogits = in.garbage({rows, n}, t);
              in.run(grad);
            },
            2);
}

TEST_CASE("adam agrees with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1027}, std::int64_t{100000}})
      twin.compare("adam", [&](Inputs& in) {
        ops::Adam op{in.floats({n}, DType::f32), in.floats({n}, t), in.floats({n}, DType::f32),
                     in.floats({n}, DType::f32, 0, 1)};
        if (t != DType::f32) op.model = in.garbage({n}, t);
        op.lr = 1e-3f, op.weight_decay = 0.01f, op.grad_scale = 0.5f, op.step = 3;
        in.run(op);
      });
}

TEST_CASE("matrix products agree with the CPU") {
  Twin twin;
  struct Sizes {
    std::int64_t m, n, k, batch;
  };
  for (const DType t : kFloatTypes)
    for (const Sizes& z :
         {Sizes{1, 1, 1, 1}, Sizes{5, 7, 3, 1}, Sizes{33, 65, 129, 1}, Sizes{256, 192, 512, 1},
          Sizes{16, 24, 40, 6}, Sizes{17, 9, 31, 5}, Sizes{64, 64, 0, 2}})
      for (const int layout : {0, 1, 2, 3})
        for (const DType out : {t, DType::f32})
          for (const float beta : {0.0f, 1.0f})
            twin.compare(
                fmt::format("matmul {}x{}x{} batch {} layout {} {} to {} beta {}", z.m, z.n, z.k, z.batch,
                            layout, name_of(t), name_of(out), beta),
                [&](Inputs& in) {
                  const auto matrix = [&](std::int64_t rows, std::int64_t cols, DType type, bool turned) {
                    if (turned) std::swap(rows, cols);
                    const std::int64_t ld = cols + 8, stride = rows * ld;  // rows with a gap after them
                    ops::Matrix m(in.floats({stride * z.batch + 8}, type), rows, cols, ld, 8, stride);
                    return turned ? m.t() : m;
                  };
                  ops::Matmul op{matrix(z.m, z.k, t, layout & 1), matrix(z.k, z.n, t, layout & 2),
                                 matrix(z.m, z.n, out, false)};
                  op.batch = z.batch, op.alpha = 0.5f, op.beta = beta;
                  in.run(op);
                },
                2);
}

TEST_CASE("attention with kept probabilities agrees with the CPU") {
  Twin twin;
  for (const DType t : kFloatTypes)
    for (const bool causal : {true, false})
      for (const float p : {0.0f, 0.1f})
        twin.compare(
            fmt::format("attention {} causal {} dropout {}", name_of(t), causal, p),
            [&](Inputs& in) {
              const std::int64_t seq = 48, batch = 2, heads = 3, d = 16;
              // As the engine's qkv tensors lie: [seq, batch, heads, 3 d].
              const auto part = [&](const Tensor& x, std::int64_t i) {
                return ops::Matrix(x, seq, d, batch * heads * 3 * d, i * d, 3 * d);
              };
              const auto whole = [&](const Tensor& x) {
                return ops::Matrix(x, seq, d, batch * heads * d, 0, d);
              };
              const Shape hidden{seq, batch, heads * d}, scores{batch, heads, seq, seq};
              ops::AttentionShape shape{batch, heads, seq, d, 0.25f, causal};
              if (!causal) shape.keep = in.bytes({batch, seq}, 0.8);
              shape.dropout = {p, kKey};
              shape.map = {6, 3, 1};
              const Tensor qkv = in.floats({seq, batch, heads, 3 * d}, t), out = in.garbage(hidden, t);
              const Tensor lse = in.garbage({batch, heads, seq}), probs = in.garbage(scores, t);
              in.run(ops::Attention{shape, part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse, probs});
              const Tensor dout = in.floats(hidden, t), dqkv = in.garbage({seq, batch, heads, 3 * d}, t);
              in.run(ops::AttentionGrad{shape, whole(dout), part(qkv, 0), part(qkv, 1), part(qkv, 2),
                                        whole(out), lse, probs, part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)});
            },
            4);
}

namespace {

// Attention without kept probabilities and its gradient, on tensors that lie as the engine's do.
struct FusedAttention {
  std::int64_t batch, heads, seq, head_dim;
  bool causal, padded;
  DType type;

  void run(Inputs& in) const {
    const std::int64_t d = head_dim;
    const auto part = [&](const Tensor& x, std::int64_t i) {
      return ops::Matrix(x, seq, d, batch * heads * 3 * d, i * d, 3 * d);
    };
    const auto whole = [&](const Tensor& x) { return ops::Matrix(x, seq, d, batch * heads * d, 0, d); };
    const Shape hidden{seq, batch, heads * d}, packed{seq, batch, heads, 3 * d};
    ops::AttentionShape s;
    s.batch = batch, s.heads = heads, s.seq = seq, s.head_dim = d;
    s.scale = 1 / std::sqrt(static_cast<float>(d)), s.causal = causal;
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), seq / 2 + 3);
    lengths[0] = seq;
    if (padded) s.keep = in.first_ones(lengths, seq);
    // Values up to 2: probabilities are far from equal, some keys have nearly all.
    const Tensor qkv = in.floats(packed, type, -2, 2), out = in.garbage(hidden, type);
    const Tensor lse = in.garbage({batch, heads, seq});
    in.run(ops::Attention{s, part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse, Tensor()});
    const Tensor dout = in.floats(hidden, type), dqkv = in.garbage(packed, type);
    in.run(ops::AttentionGrad{s, whole(dout), part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse,
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
  for (const Sizes& z : {Sizes{2, 4, 512, 64}, Sizes{2, 3, 1000, 80}, Sizes{3, 2, 512, 96},
                         Sizes{2, 2, 1000, 128}, Sizes{1, 2, 2048, 64}, Sizes{1, 1, 4096, 128}})
    for (const DType t : {DType::bf16, DType::f16})
      for (const auto& [causal, padded] : {std::pair(true, false), {false, false}, {false, true}})
        all.push_back({z.batch, z.heads, z.seq, z.head_dim, causal, padded, t});
  return all;
}

bool has_cudnn() {
  return cuda_libraries().find("no cuDNN") == std::string::npos;
}

}  // namespace

// Both sum in f32, but cuDNN rounds probabilities and score gradients to 16 bits before it multiplies them,
// which the CPU does not. For scale: on the CPU, attention op by op, which rounds these two and scores and
// gradients of probabilities besides, is at most 0.97 of this tolerance away from fused attention.
TEST_CASE("fused attention agrees with the CPU", "[cudnn]") {
  if (!has_cudnn()) {
    WARN("not checked: " << cuda_libraries());
    return;
  }
  Twin twin;
  for (const FusedAttention& a : fused_attentions())
    twin.compare(
        a.label(), [&](Inputs& in) { a.run(in); }, 4);
}

TEST_CASE("fused attention and its gradient give the same bits twice", "[cudnn]") {
  if (!has_cudnn()) return;
  const auto gpu = open_device("cuda", 0);
  for (const FusedAttention& a : fused_attentions()) {
    INFO(a.label());
    Inputs first(*gpu, 7), second(*gpu, 7);
    a.run(first);
    a.run(second);
    CHECK(first.values() == second.values());
  }
}

TEST_CASE("what fused attention on a GPU cannot do is unsupported") {
  const auto gpu = open_device("cuda", 0);
  Inputs in(*gpu, 1);
  ops::AttentionShape shape;
  shape.batch = shape.heads = 1, shape.seq = shape.head_dim = 8;
  const auto attend = [&](DType type, float dropout) {
    const auto m = [&] { return ops::Matrix(in.floats({8, 8}, type)); };
    shape.dropout = {dropout, kKey};
    in.run(ops::Attention{shape, m(), m(), m(), m(), in.garbage({1, 1, 8}), Tensor()});
  };
  if (!has_cudnn()) {
    CHECK_THROWS_WITH(attend(DType::bf16, 0), Catch::Contains("needs cuDNN"));
    return;
  }
  CHECK_THROWS_WITH(attend(DType::f32, 0), Catch::Contains("got precision f32"));
  CHECK_THROWS_WITH(attend(DType::bf16, 0.1f), Catch::Contains("got dropout 0.1"));
}

TEST_CASE("memory grows, runs out with a message, and can be read back") {
  const auto gpu = open_device("cuda", std::size_t{96} << 20);  // of which cuBLASLt's workspace has 32 MiB
  CHECK(gpu->library_bytes() >= std::size_t{32} << 20);
  std::vector<Tensor> held;
  for (int i = 0; i < 7; ++i) held.push_back(gpu->empty({2 << 20}, DType::f32, Category::other, "test"));
  for (std::size_t i = 0; i < held.size(); ++i) run(*gpu, ops::Fill{held[i], static_cast<float>(i)});
  std::vector<float> host(std::size_t{2} << 20);
  for (std::size_t i = 0; i < held.size(); ++i) {
    gpu->read(held[i], std::as_writable_bytes(std::span(host)));
    CHECK(host.front() == static_cast<float>(i));
    CHECK(host.back() == static_cast<float>(i));
  }
  CHECK_THROWS_AS(gpu->empty({4 << 20}, DType::f32, Category::other, "too much"), OutOfMemory);
}
