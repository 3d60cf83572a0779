// Every op of the CPU backend at the shapes of gpt2-345m (hidden 1024, 16 heads, sequence 1024, micro batch
// 1). FLOP/s and bytes/s are those of Op::cost(): bytes that must cross the memory bus at least once. The
// floor of an op is its bytes at the rate of `copy`, or its FLOPs at the rate of `gemm_peak`.
#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "engine/backend/cpu/cpu_device.h"

namespace {

using namespace mbench;
using benchmark::State;

constexpr std::int64_t kTokens = 1024, kHidden = 1024, kFfn = 4 * kHidden, kHeads = 16, kHeadDim = 64,
                       kVocab = 50304, kWords = 50257;
const RngKey kKey{1, 2, 3};
const ops::HiddenMap kHiddenMap{kTokens, 0, 0};
const ops::HeadMap kHeadMap{kHeads, 0, 0};

class Maker {
 public:
  explicit Maker(cpu::CpuDevice& device) : device_(device) {}
  Tensor empty(const Shape& shape, DType t = DType::f32) {
    return device_.empty(shape, t, Category::activations, "bench");
  }
  // Normal values: kernels must not meet denormals or constants.
  Tensor random(const Shape& shape, DType t = DType::f32, float stddev = 1) {
    const Tensor x = empty(shape);
    run(device_, ops::RandomNormal{x, stddev, {++seed_, 0, 0}, shape.cols(), 0, 0});
    if (t == DType::f32) return x;
    const Tensor y = empty(shape, t);
    run(device_, ops::Copy{x, y, 1});
    return y;
  }
  Tensor zeros(const Shape& shape, DType t = DType::f32) {
    const Tensor x = empty(shape, t);
    run(device_, ops::Fill{x, 0});
    return x;
  }
  void fill(const Tensor& x, float value) { run(device_, ops::Fill{x, value}); }
  Tensor ids(std::int64_t n, std::int64_t below) {
    const Tensor x = empty({n}, DType::i64);
    for (std::int64_t i = 0; i < n; ++i) x.as<std::int64_t>()[i] = i * 7919 % below;
    return x;
  }

 private:
  cpu::CpuDevice& device_;
  std::uint64_t seed_ = 0;
};

// Times an op on enough copies of its arguments that none is still in a cache when its turn comes again.
template <class Make>
void measure(State& state, Make make) {
  cpu::CpuDevice device;
  Maker maker(device);
  std::vector<decltype(make(maker))> sets{make(maker)};
  const Cost cost = sets[0].cost();
  constexpr double kPool = 192.0 * (1 << 20);
  while (static_cast<double>(sets.size()) * cost.bytes < kPool && sets.size() < 64)
    sets.push_back(make(maker));
  for (const auto& op : sets) run(device, op);
  std::size_t i = 0;
  for (auto _ : state) run(device, sets[i++ % sets.size()]);
  using benchmark::Counter;
  const double count = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = Counter(cost.flops * count, Counter::kIsRate);
  state.counters["bytes/s"] = Counter(cost.bytes * count, Counter::kIsRate);
}

void gemm_peak(State& state) {
  for (auto _ : state) state.counters["FLOP/s"] = cpu::measure_gemm_peak(1);
}

ops::Matmul product(Maker& m, DType t, std::int64_t rows, std::int64_t cols, std::int64_t depth, bool ta,
                    bool tb, DType out) {
  using ops::Matrix;
  const Matrix a = ta ? Matrix(m.random({depth, rows}, t)).t() : Matrix(m.random({rows, depth}, t));
  const Matrix b = tb ? Matrix(m.random({cols, depth}, t)).t() : Matrix(m.random({depth, cols}, t));
  return {a, b, Matrix(m.zeros({rows, cols}, out)), 1, 1, 0};
}

ops::AttentionShape attention_shape(bool causal, float p) {
  return {1, kHeads, kTokens, kHeadDim, 0.125f, causal, {}, {p, kKey}, kHeadMap};
}

ops::Matrix head_view(const Tensor& t, int part, int parts) {
  return ops::Matrix(t, kTokens, kHeadDim, kHeads * parts * kHeadDim, part * kHeadDim, parts * kHeadDim);
}

ops::Attention attention(Maker& m, DType t, float p, bool keep) {
  const Tensor qkv = m.random({kTokens, 3 * kHidden}, t), out = m.zeros({kTokens, kHidden}, t);
  const Tensor lse = m.zeros({1, kHeads, kTokens});
  return {attention_shape(true, p),
          head_view(qkv, 0, 3),
          head_view(qkv, 1, 3),
          head_view(qkv, 2, 3),
          head_view(out, 0, 1),
          lse,
          keep ? m.zeros({1, kHeads, kTokens, kTokens}, t) : Tensor()};
}

ops::AttentionGrad attention_grad(Maker& m, DType t, float p) {
  const ops::Attention f = attention(m, t, p, false);
  const Tensor d = m.zeros({kTokens, 3 * kHidden}, t), dout = m.random({kTokens, kHidden}, t);
  for (std::int64_t i = 0; i < f.lse.numel(); ++i) f.lse.as<float>()[i] = 7.5f;
  return {f.shape,
          head_view(dout, 0, 1),
          f.q,
          f.k,
          f.v,
          f.out,
          f.lse,
          {},
          head_view(d, 0, 3),
          head_view(d, 1, 3),
          head_view(d, 2, 3)};
}

struct Registration {
  template <class Make>
  Registration(const char* name, Make make) {
    benchmark::RegisterBenchmark(name, [make](State& s) { measure(s, make); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.4);
  }
};

const Shape kX{kTokens, 1, kHidden}, kWide{kTokens, 1, kFfn}, kScores{1, kHeads, kTokens, kTokens},
    kLogits{kTokens, kVocab};
constexpr DType f32 = DType::f32, b16 = DType::bf16, f16 = DType::f16;

const auto peak = benchmark::RegisterBenchmark("gemm_peak", gemm_peak) -> Iterations(1) -> UseRealTime();

const Registration all[] = {
    {"copy 64 MiB",
     [](Maker& m) {
       return ops::Copy{m.random({16 << 20}), m.zeros({16 << 20}), 1};
     }},
    {"copy f32 to bf16",
     [](Maker& m) {
       return ops::Copy{m.random({16 << 20}), m.zeros({16 << 20}, b16), 1};
     }},
    {"fill 64 MiB",
     [](Maker& m) {
       return ops::Fill{m.zeros({16 << 20}), 0};
     }},
    {"matmul qkv", [](Maker& m) { return product(m, f32, kTokens, 3 * kHidden, kHidden, false, true, f32); }},
    {"matmul proj", [](Maker& m) { return product(m, f32, kTokens, kHidden, kHidden, false, true, f32); }},
    {"matmul fc1", [](Maker& m) { return product(m, f32, kTokens, kFfn, kHidden, false, true, f32); }},
    {"matmul fc2", [](Maker& m) { return product(m, f32, kTokens, kHidden, kFfn, false, true, f32); }},
    {"matmul fc1 dx", [](Maker& m) { return product(m, f32, kTokens, kHidden, kFfn, false, false, f32); }},
    {"matmul fc1 dw", [](Maker& m) { return product(m, f32, kFfn, kHidden, kTokens, true, false, f32); }},
    {"matmul logits", [](Maker& m) { return product(m, f32, kTokens, kVocab, kHidden, false, true, f32); }},
    {"matmul fc1 bf16", [](Maker& m) { return product(m, b16, kTokens, kFfn, kHidden, false, true, b16); }},
    {"matmul fc1 dw bf16",
     [](Maker& m) { return product(m, b16, kFfn, kHidden, kTokens, true, false, f32); }},
    {"matmul fc1 f16", [](Maker& m) { return product(m, f16, kTokens, kFfn, kHidden, false, true, f16); }},
    {"matmul scores",
     [](Maker& m) {
       const Tensor qkv = m.random({kTokens, 3 * kHidden});
       const ops::Matrix scores(m.zeros(kScores), kTokens, kTokens, kTokens, 0, kTokens * kTokens);
       return ops::Matmul{head_view(qkv, 0, 3), head_view(qkv, 1, 3).t(), scores, kHeads, 1, 0};
     }},
    {"matmul scores bf16",
     [](Maker& m) {
       const Tensor qkv = m.random({kTokens, 3 * kHidden}, b16);
       const ops::Matrix scores(m.zeros(kScores, b16), kTokens, kTokens, kTokens, 0, kTokens * kTokens);
       return ops::Matmul{head_view(qkv, 0, 3), head_view(qkv, 1, 3).t(), scores, kHeads, 1, 0};
     }},
    {"attention", [](Maker& m) { return attention(m, f32, 0, false); }},
    {"attention dropout", [](Maker& m) { return attention(m, f32, 0.1f, false); }},
    {"attention probs kept", [](Maker& m) { return attention(m, f32, 0, true); }},
    {"attention bf16", [](Maker& m) { return attention(m, b16, 0, false); }},
    {"attention_grad", [](Maker& m) { return attention_grad(m, f32, 0); }},
    {"attention_grad dropout", [](Maker& m) { return attention_grad(m, f32, 0.1f); }},
    {"attention_grad bf16", [](Maker& m) { return attention_grad(m, b16, 0); }},
    {"softmax causal",
     [](Maker& m) {
       const Tensor x = m.random(kScores);
       return ops::Softmax{x, x, 0.125f, true, {}, {}};
     }},
    {"softmax_grad causal",
     [](Maker& m) {
       return ops::SoftmaxGrad{m.random(kScores), m.random(kScores), m.zeros(kScores), 0.125f, true};
     }},
    {"layer_norm",
     [](Maker& m) {
       return ops::LayerNorm{m.random(kX), m.random({kHidden}), m.random({kHidden}),
                             m.zeros(kX),  m.zeros({kTokens}),  m.zeros({kTokens})};
     }},
    {"layer_norm_grad",
     [](Maker& m) {
       return ops::LayerNormGrad{m.random(kX),        m.random(kX),        m.random({kTokens}),
                                 m.random({kTokens}), m.random({kHidden}), m.random(kX),
                                 m.zeros(kX),         m.zeros({kHidden}),  m.zeros({kHidden})};
     }},
    {"bias_add",
     [](Maker& m) {
       return ops::BiasAdd{m.random(kWide), m.random({kFfn}), m.zeros(kWide)};
     }},
    {"bias_grad",
     [](Maker& m) {
       return ops::BiasGrad{m.random(kWide), m.zeros({kFfn})};
     }},
    {"bias_gelu",
     [](Maker& m) {
       return ops::BiasGelu{m.random(kWide), m.random({kFfn}), m.zeros(kWide)};
     }},
    {"bias_gelu bf16",
     [](Maker& m) {
       return ops::BiasGelu{m.random(kWide, b16), m.random({kFfn}, b16), m.zeros(kWide, b16)};
     }},
    {"bias_gelu_grad",
     [](Maker& m) {
       return ops::BiasGeluGrad{m.random(kWide), m.random(kWide), m.random({kFfn}), m.zeros(kWide)};
     }},
    {"dropout mask",
     [](Maker& m) {
       return ops::Dropout{m.random(kX), m.zeros(kX), m.empty(kX, DType::u8), {0.1f, kKey}, kHiddenMap};
     }},
    {"dropout scores",
     [](Maker& m) {
       return ops::Dropout{m.random(kScores), m.zeros(kScores), {}, {0.1f, kKey}, kHeadMap};
     }},
    {"dropout_grad redrawn",
     [](Maker& m) {
       return ops::DropoutGrad{m.random(kX), m.zeros(kX), {}, {0.1f, kKey}, kHiddenMap};
     }},
    {"bias_dropout_add",
     [](Maker& m) {
       return ops::BiasDropoutAdd{m.random(kX), m.random({kHidden}), m.random(kX), m.zeros(kX),
                                  {},           {0.1f, kKey},        kHiddenMap};
     }},
    {"embedding",
     [](Maker& m) {
       return ops::Embedding{m.ids(kTokens, kWords), m.zeros({kVocab, kHidden}), m.zeros(kX), 0, false};
     }},
    {"embedding_grad",
     [](Maker& m) {
       return ops::EmbeddingGrad{m.ids(kTokens, kWords), m.random(kX), m.zeros({kVocab, kHidden}), 0};
     }},
    {"row_max",
     [](Maker& m) {
       return ops::RowMax{m.random(kLogits), m.zeros({kTokens}), kWords};
     }},
    {"exp_sum",
     [](Maker& m) {
       const Tensor x = m.random(kLogits), s = m.zeros({kTokens});
       return ops::ExpSum{x, m.zeros({kTokens}), m.ids(kTokens, kWords), 0, kWords, s, m.zeros({kTokens}),
                          {}};
     }},
    {"cross_entropy_grad",
     [](Maker& m) {
       const Tensor x = m.random(kLogits, f32, 0.01f), one = m.zeros({kTokens});
       m.fill(one, 1);
       return ops::CrossEntropyGrad{x, {}, one, one, m.ids(kTokens, kWords), {}, 1, 0, kWords, x};
     }},
    {"adam",
     [](Maker& m) {
       constexpr std::int64_t n = 16 << 20;
       ops::Adam op;
       op.param = m.random({n}), op.grad = m.random({n}), op.m = m.zeros({n}), op.v = m.zeros({n});
       op.lr = 1e-4f;
       return op;
     }},
    {"adam bf16",
     [](Maker& m) {
       constexpr std::int64_t n = 16 << 20;
       ops::Adam op;
       op.param = m.random({n}), op.grad = m.random({n}, b16), op.m = m.zeros({n}), op.v = m.zeros({n});
       op.model = m.zeros({n}, b16);
       op.lr = 1e-4f;
       return op;
     }},
    {"sum_squares",
     [](Maker& m) {
       return ops::SumSquares{m.random({16 << 20}), m.zeros({1})};
     }},
    {"add",
     [](Maker& m) {
       return ops::Add{m.random(kX), m.random(kX), m.zeros(kX)};
     }},
    {"tanh",
     [](Maker& m) {
       return ops::Tanh{m.random(kX), m.zeros(kX)};
     }},
    {"random_normal 16 Mi",
     [](Maker& m) {
       return ops::RandomNormal{m.zeros({16384, 1024}), 1, kKey, 1024, 0, 0};
     }},
};

}  // namespace
