// How fast the GPU's own kernels move the bytes that they must move, at the shapes of gpt-1.3b with 16384 tokens in bf16. Prints JSON.
//
//   kernel_bench [--tiny] [--table bench/kernels.json]
//
// ops:  microseconds of an op, the fastest of some runs by the stream's clock; its bytes (Op::cost()) over that time; `measured`, the
//       share of the rate of a large copy; `allowed`, the share that registers, shared memory and loads in flight leave to its kernel
//       (scripts/kernel-table writes the table, null where it has no row).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/ops/ops.h"
#include "engine/platform/registry.h"

namespace mbench::bench {
namespace {

struct Sizes {
  std::int64_t tokens = 16384, hidden = 2048, ffn = 8192, heads = 32, vocab = 50304, words = 50257,
               copy = std::int64_t{1} << 29;
};

struct Row {
  std::string op;
  double us = 0, bytes = 0;
};

class Bench {
 public:
  Bench(Device& device, const Sizes& sizes) : device_(device), z_(sizes) {}

  std::vector<Row> run_all();

 private:
  Tensor made(const Shape& shape, DType type = DType::bf16) {
    return device_.empty(shape, type, Category::other, "bench");
  }
  // Normal numbers: constants would make a GPU draw less power.
  Tensor drawn(const Shape& shape, DType type = DType::bf16, float stddev = 1) {
    const Tensor x = made(shape, DType::f32);
    const Shape flat{shape.rows(), shape.cols()};
    run(device_, ops::RandomNormal{x.view(flat), stddev, RngKey{7, ++site_, 0}, shape.cols()});
    if (type == DType::f32) return x;
    const Tensor y = made(shape, type);
    run(device_, ops::Copy{x, y});
    return y;
  }
  Tensor filled(const Shape& shape, float value, DType type = DType::f32) {
    const Tensor x = made(shape, type);
    run(device_, ops::Fill{x, value});
    return x;
  }
  // As words are: a few fill much of the batch.
  Tensor ids(std::int64_t count, std::int64_t below) {
    std::mt19937_64 engine(11);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::int64_t& v : values)
      v = static_cast<std::int64_t>(static_cast<double>(below) * std::pow(uniform(engine), 4));
    const Tensor x = device_.empty({count}, DType::i64, Category::other, "bench");
    device_.write(x, std::as_bytes(std::span(values)));
    return x;
  }
  template <class Op>
  void time(const std::string& name, const Op& op) {
    constexpr int kRuns = 5, kEach = 4;
    run(device_, op);
    double best = 1e30;
    for (int i = 0; i < kRuns; ++i) {
      const double begin = device_.synchronize();
      for (int k = 0; k < kEach; ++k) run(device_, op);
      best = std::min(best, (device_.synchronize() - begin) / kEach);
    }
    rows_.push_back({name, best * 1e6, op.cost().bytes});
  }

  void norms();
  void feed_forward();
  void positions();
  void logits();
  void words();
  void optimizer();
  void fp8();

  Device& device_;
  Sizes z_;
  std::uint64_t site_ = 0;
  std::vector<Row> rows_;
};

void Bench::norms() {
  const Shape hidden{z_.tokens, 1, z_.hidden};
  const Tensor x = drawn(hidden), dy = drawn(hidden), residual = drawn(hidden), y = made(hidden),
               gamma = filled({z_.hidden}, 1, DType::bf16), beta = filled({z_.hidden}, 0, DType::bf16),
               mean = made({z_.tokens}, DType::f32), rstd = made({z_.tokens}, DType::f32),
               dgamma = filled({z_.hidden}, 0), dbeta = filled({z_.hidden}, 0);
  time("layer_norm", ops::LayerNorm{x, gamma, beta, y, mean, rstd});
  time("layer_norm_grad", ops::LayerNormGrad{dy, x, mean, rstd, gamma, residual, y, dgamma, dbeta});
  time("rms_norm", ops::RmsNorm{ops::Matrix(x), gamma, ops::Matrix(y), rstd});
  time("rms_norm_grad",
       ops::RmsNormGrad{ops::Matrix(dy), ops::Matrix(x), rstd, gamma, ops::Matrix(residual), ops::Matrix(y), dgamma});
  time("bias_dropout_add", ops::BiasDropoutAdd{x, beta, residual, y, Tensor(), {}, ops::HiddenMap{z_.tokens, 0, 0}});
  time("bias_dropout_add, p 0.1",
       ops::BiasDropoutAdd{x, beta, residual, y, Tensor(), {0.1f, RngKey{7, 99, 0}}, ops::HiddenMap{z_.tokens, 0, 0}});
}

void Bench::feed_forward() {
  const Tensor pairs = drawn({z_.tokens, 1, 2 * z_.ffn}), wide = drawn({z_.tokens, 1, z_.ffn});
  time("swiglu", ops::SwiGlu{pairs, Tensor(), wide});
  time("swiglu_grad", ops::SwiGluGrad{wide, pairs, Tensor(), pairs});
  const Tensor y = made(wide.shape()), sum = made(wide.shape()), bias = filled({z_.ffn}, 0, DType::bf16),
               dbias = filled({z_.ffn}, 0);
  time("bias_gelu", ops::BiasGelu{wide, bias, y, sum});
  time("bias_gelu_grad", ops::BiasGeluGrad{y, sum, Tensor(), y});
  time("bias_grad", ops::BiasGrad{y, dbias});
}

// Of the heads of queries, side by side.
void Bench::positions() {
  constexpr std::int64_t kSamples = 8;
  const std::int64_t seq = z_.tokens / kSamples, head_dim = z_.hidden / z_.heads;
  const Tensor x = drawn({seq, kSamples, z_.heads, head_dim}), angles = drawn({2, seq, head_dim / 2}, DType::f32);
  time("rotary", ops::Rotary{x, angles, 1, head_dim});
}

void Bench::logits() {
  const Tensor x = drawn({z_.tokens, z_.vocab}), targets = ids(z_.tokens, z_.words),
               max = made({z_.tokens}, DType::f32), sum = made({z_.tokens}, DType::f32),
               target = made({z_.tokens}, DType::f32), loss = made({1}, DType::f32);
  time("row_max", ops::RowMax{x, max, z_.words});
  time("exp_sum", ops::ExpSum{x, max, targets, 0, z_.words, sum, target, Tensor()});
  time("max_exp_sum", ops::MaxExpSum{x, targets, z_.words, max, sum, target});
  time("cross_entropy_loss", ops::CrossEntropyLoss{sum, target, Tensor(), 1, loss});
  const Tensor d = made({z_.tokens, z_.vocab});
  time("cross_entropy_grad", ops::CrossEntropyGrad{x, Tensor(), max, sum, targets, Tensor(), 1e-4f, 0, z_.words, d});
}

void Bench::words() {
  const Tensor tokens = ids(z_.tokens, z_.words), table = drawn({z_.vocab, z_.hidden}),
               y = made({z_.tokens, z_.hidden}), dtable = filled({z_.vocab, z_.hidden}, 0), types = ids(z_.tokens, 2),
               dtypes = filled({2, z_.hidden}, 0);
  time("embedding", ops::Embedding{tokens, table, y});
  time("embedding_grad", ops::EmbeddingGrad{tokens, y, dtable, 0});
  time("embedding_grad, 2 rows", ops::EmbeddingGrad{types, y, dtypes, 0});
}

void Bench::optimizer() {
  const std::int64_t n = z_.ffn * z_.hidden;
  const Tensor param = drawn({n}, DType::f32), grad = drawn({n}, DType::f32), m = filled({n}, 0), v = filled({n}, 0),
               model = made({n}), sum = filled({1}, 0);
  time("sum_squares", ops::SumSquares{grad, sum});
  ops::Adam adam;
  adam.param = param, adam.grad = grad, adam.m = m, adam.v = v, adam.model = model;
  adam.step = 1;
  time("adam", adam);
}

void Bench::fp8() {
  const Tensor x = drawn({z_.tokens, z_.ffn}), scale = filled({1}, 16), amax = filled({1}, 0),
               y = made({z_.tokens, z_.ffn}, DType::e4m3), turned = made({z_.ffn, z_.tokens}, DType::e4m3);
  time("abs_max", ops::AbsMax{x, amax});
  time("quantise, both ways", ops::Quantise{x, scale, y, turned, amax});
  using Op = ops::QuantiseBlocks;
  for (const auto& [by, what] : {std::pair{ops::Fp8Blocks::rows, "quantise_blocks, both ways"},
                                 {ops::Fp8Blocks::whole_rows, "quantise_blocks, whole rows"},
                                 {ops::Fp8Blocks::mx, "quantise_blocks, MXFP8"},
                                 {ops::Fp8Blocks::nv, "quantise_blocks, NVFP4"}}) {
    const bool nv = of_nvfp4(by);
    Op blocks{x,
              nv ? made(Op::codes_of(z_.tokens, z_.ffn, by), DType::u8) : y,
              made(Op::scales_of(z_.tokens, z_.ffn, by), Op::scale_type(by)),
              nv ? made(Op::codes_of(z_.ffn, z_.tokens, by), DType::u8) : turned,
              made(Op::scales_of(z_.ffn, z_.tokens, by), Op::scale_type(by)),
              by};
    if (nv) blocks.amax = blocks.transposed_amax = filled({1}, 4), blocks.hadamard = true;
    time(what, blocks);
  }
  time("fp8_transpose", ops::Fp8Transpose{y, turned});
}

std::vector<Row> Bench::run_all() {
  {
    const Tensor from = drawn({z_.copy / 4096, 4096}), to = made({z_.copy / 4096, 4096});
    time("copy", ops::Copy{from, to});
  }
  norms();
  feed_forward();
  positions();
  logits();
  words();
  optimizer();
  fp8();
  return rows_;
}

// The share that the table allows the op's kernel, null where there is none.
nlohmann::ordered_json allowed(const nlohmann::json& table, const std::string& op) {
  const auto found = table.find("ops");
  if (found == table.end() || !found->contains(op)) return nullptr;
  return found->at(op).at("allowed");
}

int run_bench(bool tiny, const std::string& table_path) {
  nlohmann::json table;
  if (!table_path.empty()) {
    std::ifstream file(table_path);
    if (!file) {
      std::fprintf(stderr, "[kernel_bench] --table %s: no such file, need the one of scripts/kernel-table\n",
                   table_path.c_str());
      return 2;
    }
    table = nlohmann::json::parse(file);
  }
  const auto device = platform::open_device("cuda", 0);
  Sizes sizes;
  if (tiny) sizes = {64, 128, 256, 4, 512, 500, 1 << 16};
  const std::vector<Row> rows = Bench(*device, sizes).run_all();
  const double memory = rows.front().bytes / rows.front().us * 1e-3;
  nlohmann::ordered_json out{
      {"device", device->name()}, {"memory_gb_per_s", memory}, {"ops", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    const double rate = row.bytes / row.us * 1e-3;
    out["ops"].push_back(
        {{"op", row.op},
         {"bytes", row.bytes},
         {"us", row.us},
         {"gb_per_s", rate},
         {"allowed", allowed(table, row.op)},
         {"measured", tiny ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(rate / memory)}});
  }
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace mbench::bench

int main(int argc, char** argv) {
  CLI::App app("Rates of the GPU's own kernels");
  bool tiny = false;
  std::string table;
  app.add_flag("--tiny", tiny, "Small tensors: a test of this program, and no measurement");
  app.add_option("--table", table, "What registers allow: bench/kernels.json");
  CLI11_PARSE(app, argc, argv);
  try {
    return mbench::bench::run_bench(tiny, table);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
