// What kernels of a simulated device cost: the rules of the model, on a machine with round figures.
#include "engine/sim/cost/cost_model.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/sim/run/step_costs.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using sim::CostModel;
using sim::GemmSize;

namespace {

constexpr double kFlops = 100e12, kSustained = 0.8, kBandwidth = 1e12, kLatency = 2e-6;
constexpr double kOverhead = 64;
constexpr std::int64_t kUnits = 100, kTile = 128;

std::size_t at(Precision p) {
  return static_cast<std::size_t>(p);
}

// One tile of efficiency 1, so that every formula is short. No bf16 units.
Machine round_machine() {
  Machine m;
  m.device.peak_flops[at(Precision::fp16)] = kFlops;
  m.gemm.sustained[at(Precision::fp16)] = kSustained;
  m.device.peak_flops[at(Precision::f32)] = kFlops / 8;
  m.gemm.sustained[at(Precision::f32)] = 1;
  m.device.memory_bandwidth = 2 * kBandwidth;
  m.device.memory_efficiency = 0.5;
  m.device.kernel_latency = kLatency;
  m.device.multiprocessors = kUnits;
  m.gemm.tiles = {{kTile, kTile, 1}};
  m.gemm.k_overhead = kOverhead;
  m.attention = {0.5, 0.25, {}};
  return m;
}

Framework plain_framework() {
  Framework f;
  f.traffic_efficiency = 1;
  return f;
}

Cost cost_of(const GemmSize& s, double element = 2) {
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k),
               b = static_cast<double>(s.batch);
  return {2 * m * n * k * b, element * b * (m * k + k * n + m * n), true};
}

double product(const Machine& machine, const GemmSize& s) {
  return CostModel(machine, plain_framework(), 1).gemm_seconds(s, cost_of(s));
}

// A matrix times a vector; on a device of a hundred times the FLOP/s, bound by reading the matrix.
constexpr GemmSize kThin{1, 65536, 65536, 1, DType::f16};
Machine eager_to_compute() {
  Machine m = round_machine();
  m.device.peak_flops[at(Precision::fp16)] = 100 * kFlops;
  return m;
}

// A wave of tiles of length k on all multiprocessors.
double wave(double k) {
  return 2.0 * kTile * kTile * (k + kOverhead) / (kFlops * kSustained / kUnits);
}

}  // namespace

TEST_CASE("a large product reaches the sustained peak but for the overhead of its tiles") {
  // 80 x 80 tiles are 64 full waves.
  const GemmSize s{80 * kTile, 80 * kTile, 8192, 1, DType::f16};
  const double rate = cost_of(s).flops / product(round_machine(), s);
  CHECK(rate < kFlops * kSustained);
  CHECK(rate == Approx(kFlops * kSustained * 8192 / (8192 + kOverhead)).epsilon(1e-3));
}

TEST_CASE("one tile more than a full wave costs a wave more") {
  const auto seconds = [](std::int64_t tiles) {
    return product(round_machine(), {kTile, tiles * kTile, 8192, 1, DType::f16});
  };
  const double full = seconds(kUnits);
  CHECK(full == Approx(wave(8192) + kLatency));
  // A partial wave costs no less. (More than half full, so that splitting along k cannot fill it up.)
  CHECK(seconds(kUnits - 10) == full);
  CHECK(seconds(2 * kUnits) == Approx(2 * wave(8192) + kLatency));
  const double more = product(round_machine(), {kTile, kUnits * kTile + 1, 8192, 1, DType::f16});
  CHECK(more > 1.5 * full);
  CHECK(more <= seconds(2 * kUnits));
}

TEST_CASE("a ragged edge costs a whole tile") {
  const auto seconds = [](std::int64_t m) { return product(round_machine(), {m, 90 * kTile, 256, 1, DType::f16}); };
  CHECK(seconds(kTile - 100) == seconds(kTile));
}

TEST_CASE("a product of a batch fills waves with all its members") {
  Machine machine = round_machine();
  machine.device.memory_bandwidth *= 10;  // or single tiles would be bound by it
  CHECK(product(machine, {kTile, kTile, 512, kUnits, DType::f16}) == Approx(wave(512) + kLatency));
  CHECK(product(machine, {kTile, kTile, 512, 3 * kUnits, DType::f16}) == Approx(3 * wave(512) + kLatency));
}

TEST_CASE("a thin product takes the time of its traffic") {
  CHECK(product(eager_to_compute(), kThin) == Approx(cost_of(kThin).bytes / kBandwidth + kLatency));
  CHECK(product(round_machine(), kThin) > 1.5 * cost_of(kThin).bytes / kBandwidth);
}

TEST_CASE("splitting along k helps a product of few tiles that is tall in k, and adding the parts up costs") {
  const GemmSize s{kTile, kTile, 65536, 1, DType::f16};
  const double unsplit = wave(65536) + kLatency;
  const double split = product(round_machine(), s);
  CHECK(split < unsplit / 8);
  CHECK(split >= wave(65536.0 / 16) + kLatency);
  // Where k is short there is nothing to split.
  const GemmSize flat{kTile, kTile, 64, 1, DType::f16};
  CHECK(product(round_machine(), flat) == Approx(wave(64) + kLatency));
  // A full wave is not split either.
  CHECK(product(round_machine(), {10 * kTile, 20 * kTile, 65536, 1, DType::f16}) == Approx(2 * wave(65536) + kLatency));
}

TEST_CASE("the best tile of the machine counts") {
  Machine machine = round_machine();
  machine.gemm.tiles.push_back({32, 32, 0.5});
  const GemmSize small{32, 32, 128, 1, DType::f16}, large{80 * kTile, 80 * kTile, 8192, 1, DType::f16};
  CHECK(product(machine, small) < product(round_machine(), small));
  CHECK(product(machine, large) == product(round_machine(), large));
}

TEST_CASE("GEMMs of one call fill each other's waves") {
  const GemmSize alone{125 * kTile, kTile, 8192, 1, DType::f16};  // 125 tiles on 100 multiprocessors: two waves
  GemmSize part = alone;
  part.parts = 4;  // 500 tiles: five waves
  CHECK((product(round_machine(), part) - kLatency) / (product(round_machine(), alone) - kLatency) ==
        Approx(5.0 / 4 / 2));
  GemmSize most{60 * kTile, kTile, 8192, 1, DType::f16};  // a wave, of which 60 of 100 are used
  const double one = product(round_machine(), most) - kLatency;
  most.parts = 3;  // 180 tiles: two waves
  CHECK(product(round_machine(), most) - kLatency == Approx(one * 2 / 3));
}

TEST_CASE("no kernel takes less than the kernel latency") {
  CostModel model(round_machine(), plain_framework(), 1);
  CHECK(model.streaming_seconds({1, 4, false}) == Approx(kLatency).epsilon(1e-3));
  CHECK(model.streaming_seconds({1, 4, false}) > kLatency);
  const GemmSize one{1, 1, 1, 1, DType::f16};
  CHECK(model.gemm_seconds(one, cost_of(one)) > kLatency);
  CHECK(model.attention_seconds({}, {1, 4, true}, DType::f16, false) > kLatency);
}

TEST_CASE("everything else takes its bytes at the bandwidth or its FLOPs at the f32 peak, whichever is longer") {
  CostModel model(round_machine(), plain_framework(), 1);
  CHECK(model.streaming_seconds({1e9, 1e9, false}) == Approx(1e9 / kBandwidth + kLatency));
  CHECK(model.streaming_seconds({1e12, 1e9, false}) == Approx(1e12 / (kFlops / 8) + kLatency));
  Framework slow = plain_framework();
  slow.traffic_efficiency = 0.5;
  CHECK(CostModel(round_machine(), slow, 1).streaming_seconds({0, 1e9, false}) == Approx(2e9 / kBandwidth + kLatency));
  // A framework's products are the library's, not its own.
  CHECK(CostModel(eager_to_compute(), slow, 1).gemm_seconds(kThin, cost_of(kThin)) ==
        product(eager_to_compute(), kThin));
}

TEST_CASE("what a framework runs by several kernels takes their latencies and the bytes that they move") {
  Framework framework = plain_framework();
  framework.unfused = {{"rms_norm", {.calls = 6, .traffic = 9, .traffic_f32 = 3.5}}};
  const CostModel bf16(round_machine(), framework, 1, Precision::bf16), f32(round_machine(), framework, 1);
  const Cost cost{1, 1e9};
  CHECK_FALSE(bf16.unfused("layer_norm"));
  REQUIRE(bf16.unfused("rms_norm"));
  CHECK(bf16.streaming_seconds(cost, *bf16.unfused("rms_norm")) == Approx(9e9 / kBandwidth + 6 * kLatency));
  CHECK(f32.streaming_seconds(cost, *f32.unfused("rms_norm")) == Approx(3.5e9 / kBandwidth + 6 * kLatency));
}

TEST_CASE("attention of a framework that runs slower kernels takes its share of theirs") {
  Framework framework = plain_framework();
  framework.attention_forward = 0.5, framework.attention_backward = 0.25;
  CostModel model(round_machine(), framework, 1);
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, false) == Approx(1e12 / (0.25 * kFlops) + kLatency));
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, true) ==
        Approx(1e12 / (0.0625 * kFlops) + kLatency));
}

TEST_CASE(
    "a gradient of attention in a fixed order writes the gradients of all scores and reads them, where a framework "
    "asks for it") {
  Framework engine = plain_framework(), other = plain_framework();
  engine.attention_workspace = true;
  constexpr double kBytes =
      2.0 * 3 * 4 * 128 * 128 * 2;  // of 3 samples of 4 heads of 100 positions, in tiles of 64 x 64
  CHECK(CostModel(round_machine(), engine, 1).ordered_gradient_seconds(3, 4, 100) == Approx(kBytes / kBandwidth));
  CHECK(CostModel(round_machine(), other, 1).ordered_gradient_seconds(3, 4, 100) == 0);
  engine.keeps.deterministic_attention = false;
  CHECK(CostModel(round_machine(), engine, 1).ordered_gradient_seconds(3, 4, 100) == 0);
}

TEST_CASE("a framework whose unfused op is none of the engine's is refused") {
  Framework framework = plain_framework();
  for (const FrameworkFile& file : builtin_frameworks())
    for (const auto& [op, _] : find_framework(file.name(), "test").unfused) framework.unfused[op] = {};
  CHECK(framework.unfused.count("rms_norm") == 1);
  CHECK_FALSE(why_lacking({.precision = Precision::fp16}, round_machine(), framework));
  for (const char* op : {"rms_nrom", "matmul", "attention"}) {
    framework.unfused = {{op, {}}};
    CHECK_THAT(why_lacking({.precision = Precision::fp16}, round_machine(), framework).value(),
               Catch::Contains(fmt::format("has unfused {}, which is no op", op)));
  }
}

TEST_CASE("attention of a framework that runs FlashAttention-2 takes that one's shares of the peak") {
  Machine machine = round_machine();
  machine.attention.flash_attention_2 = AttentionSpeed{0.4, 0.2, {}};
  Framework framework = plain_framework();
  framework.attention = AttentionKernels::flash_attention_2;
  CostModel model(machine, framework, 1);
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, false) == Approx(1e12 / (0.4 * kFlops) + kLatency));
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, true) == Approx(1e12 / (0.2 * kFlops) + kLatency));
  // Where a machine's file does not tell them apart they are the same.
  const Machine v100 = find_machine("V100-SXM2-16GB", "test");
  CHECK(v100.attention_on(AttentionKernels::flash_attention_2) == &v100.attention);
  const Machine h100 = find_machine("H100-SXM5-80GB", "test");
  CHECK(h100.attention_on(AttentionKernels::flash_attention_2)->forward < h100.attention.forward);
  CHECK(h100.attention_on(AttentionKernels::cudnn) == &h100.attention);
  CHECK(h100.attention_on(AttentionKernels::flash_attention_3)->forward > h100.attention.forward);
  CHECK(v100.attention_on(AttentionKernels::flash_attention_3) == &v100.attention);
}

TEST_CASE(
    "attention of a framework that runs the first FlashAttention takes that one's shares, and a machine without them "
    "is refused") {
  Machine machine = round_machine();
  machine.attention.flash_attention_1 = AttentionSpeed{0.25, 0.125, {}};
  Framework framework = plain_framework();
  framework.attention = AttentionKernels::flash_attention_1;
  CostModel model(machine, framework, 1);
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, false) == Approx(1e12 / (0.25 * kFlops) + kLatency));
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, true) == Approx(1e12 / (0.125 * kFlops) + kLatency));
  Needs needs{.attention = AttentionKind::flash};
  CHECK_FALSE(why_lacking(needs, machine, framework));
  machine.attention.flash_attention_1.reset();
  CHECK_THAT(why_lacking(needs, machine, framework).value(), Catch::Contains("forward_flash_attention_1"));
  needs.attention = AttentionKind::core;  // of the engine's own way it is one op all the same
  framework.keeps.fused_attention = true;
  CHECK(why_lacking(needs, machine, framework));
  framework.keeps.fused_attention = false;
  CHECK_FALSE(why_lacking(needs, machine, framework));
}

TEST_CASE("fused attention is slower by its shape, as far as the machine's curves say") {
  const auto curve = [](int head_dim, bool causal, std::vector<double> forward) {
    return nlohmann::json{{"head_dim", head_dim},          {"causal", causal},
                          {"positions", {2048, 8192}},     {"forward_tflops", forward},
                          {"backward_tflops", {100, 200}}, {"source", "test"}};
  };
  const auto curves =
      nlohmann::json::array({curve(128, true, {400, 500}), curve(128, false, {600, 600}), curve(64, true, {200, 300})});
  const auto rates = sim::AttentionRates::from_json(curves, "m");
  CHECK(rates.forward({}) == Approx(1));
  CHECK(rates.forward({128, 2048, true}) == Approx(0.8));
  CHECK(rates.forward({128, 4096, true}) == Approx(0.9));
  CHECK(rates.backward({128, 2048, true}) == Approx(0.5));
  CHECK(rates.forward({128, 8192, false}) == Approx(1.2));
  CHECK(rates.forward({64, 8192, true}) == Approx(0.6));
  CHECK(rates.forward({std::sqrt(64.0 * 128), 8192, true}) == Approx(0.8));
  // Beyond the ends what the ends have.
  CHECK(rates.forward({32, 128, true}) == Approx(0.4));
  CHECK(rates.forward({256, 65536, true}) == Approx(1));
  CHECK(rates.forward({64, 8192, false}) == Approx(1.2));  // 128 alone was measured without a mask
  CHECK(sim::AttentionRates().forward({64, 512, true}) == 1);

  Machine machine = round_machine();
  machine.attention.by_shape = rates;
  const CostModel model(machine, plain_framework(), 1);
  CHECK(model.attention_seconds({128, 2048, true}, {1e12, 1e6, true}, DType::f16, false) ==
        Approx(1e12 / (0.5 * 0.8 * kFlops) + kLatency));
  CHECK(model.attention_seconds({128, 2048, true}, {1e12, 1e6, true}, DType::f16, true) ==
        Approx(1e12 / (0.25 * 0.5 * kFlops) + kLatency));

  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(sim::AttentionRates::from_json(nlohmann::json::array({curve(64, true, {1, 2})}), "m"),
                    Contains("[m]") && Contains("no rate of head_dim 128"));
  CHECK_THROWS_WITH(sim::AttentionRates::from_json(nlohmann::json::array({curve(128, true, {1, 2, 3})}), "m"),
                    Contains("[m[0].forward_tflops]") && Contains("got 3 of them, need 2"));
  auto falling = curve(128, true, {1, 2});
  falling["positions"] = {8192, 2048};
  CHECK_THROWS_WITH(sim::AttentionRates::from_json(nlohmann::json::array({falling}), "m"),
                    Contains("[m[0].positions[1]]") && Contains("ascending"));
}

TEST_CASE("fused attention takes its shares of the peak, forward and backward") {
  CostModel model(round_machine(), plain_framework(), 1);
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, false) == Approx(1e12 / (0.5 * kFlops) + kLatency));
  CHECK(model.attention_seconds({}, {1e12, 1e6, true}, DType::f16, true) == Approx(1e12 / (0.25 * kFlops) + kLatency));
  CHECK(model.attention_seconds({}, {1, 1e9, true}, DType::f16, false) == Approx(1e9 / kBandwidth + kLatency));
}

TEST_CASE("a type without units of its own is computed in f32") {
  const Machine m = round_machine();
  const GemmSize f32{80 * kTile, 80 * kTile, 8192, 1, DType::f32};
  GemmSize bf16 = f32, f16 = f32;
  bf16.dtype = DType::bf16;
  f16.dtype = DType::f16;
  CHECK(product(m, bf16) == Approx(product(m, f32)).epsilon(1e-6));
  CHECK(product(m, f16) < product(m, f32) / 5);
}

TEST_CASE("a rank that has a share of the device has that share of every rate") {
  CostModel whole(round_machine(), plain_framework(), 1), half(round_machine(), plain_framework(), 0.5);
  CHECK(half.streaming_seconds({0, 1e9, false}) == Approx(2e9 / kBandwidth + kLatency));
  const GemmSize s{80 * kTile, 80 * kTile, 8192, 1, DType::f16};
  CHECK(half.gemm_seconds(s, cost_of(s)) == Approx(2 * whole.gemm_seconds(s, cost_of(s))).epsilon(1e-3));
}

TEST_CASE("products of f32 run on the units for tf32 where the point says so") {
  Machine m = round_machine();
  m.device.peak_flops[at(Precision::tf32)] = kFlops / 2;
  m.gemm.sustained[at(Precision::tf32)] = kSustained;
  GemmSize f32{80 * kTile, 80 * kTile, 8192, 1, DType::f32}, f16 = f32;
  f16.dtype = DType::f16;
  const Cost cost{1, 1, true};
  CostModel plain(m, plain_framework(), 1), tf32(m, plain_framework(), 1, Precision::tf32);
  // Of sustained peaks, 1/8 and 0.5 * 0.8.
  CHECK((plain.gemm_seconds(f32, cost) - kLatency) / (tf32.gemm_seconds(f32, cost) - kLatency) == Approx(0.4 / 0.125));
  CHECK(tf32.gemm_seconds(f16, cost) == plain.gemm_seconds(f16, cost));
  CHECK(tf32.attention_seconds({}, {1e12, 1e6, true}, DType::f32, false) ==
        Approx(1e12 / (0.5 * kFlops / 2) + kLatency));
  CHECK(tf32.streaming_seconds({1e12, 1e9, false}) == plain.streaming_seconds({1e12, 1e9, false}));
}

TEST_CASE("an epilogue is arithmetic on a GPU, and ops of its own where the library has none") {
  Machine m = round_machine();
  const Cost gelu{12e9, 2e9};
  CHECK(CostModel(m, plain_framework(), 1).epilogue_seconds(gelu) == Approx(12e9 / (kFlops / 8)));
  m.immediate = true;
  CostModel cpu(m, plain_framework(), 1);
  CHECK(cpu.epilogue_seconds(gelu) == cpu.streaming_seconds(gelu));
}

TEST_CASE("host memory: a copy takes the link or a rank's share of the memory, an update that share") {
  Machine m = find_machine("V100-SXM2-16GB", "test");
  const Framework f = find_framework("mbench", "test");
  m.host.copy_bandwidth = 12e9, m.host.memory_bandwidth = 100e9, m.host.adam_efficiency = 0.5;
  const sim::CostModel alone(m, f, 1, Precision::fp16, 1), full(m, f, 1, Precision::fp16, 10);
  CHECK(alone.host_copy_seconds(24e9) == Approx(2));
  CHECK(full.host_copy_seconds(24e9) == Approx(2.4));
  CHECK(alone.host_seconds({0, 50e9}) == Approx(1));
  CHECK(full.host_seconds({0, 50e9}) == Approx(10));
  CHECK(full.host_memory() == m.host.memory_bytes / 10);
  m.immediate = true;
  const sim::CostModel cpu(m, f, 1);
  CHECK(cpu.host_copy_seconds(1e9) == cpu.streaming_seconds({0, 2e9}));
}

// The reference draws rows and lets each GEMM take its own tiles.
TEST_CASE("rows that are drawn fill tiles as they do on average") {
  const Machine machine = round_machine();
  std::mt19937_64 next(7);
  for (const std::int64_t mean : {40, 256, 300, 4096}) {
    const double deviation = std::sqrt(static_cast<double>(mean));
    GemmSize size{mean, 1024, 1024, 16, DType::f16};
    size.parts = 1000;  // no wave is left half empty
    std::normal_distribution<double> rows(static_cast<double>(mean), deviation);
    double sum = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      GemmSize one = size;
      one.m = std::max<std::int64_t>(0, std::llround(rows(next)));
      sum += one.m == 0 ? 0 : product(machine, one) - kLatency;
    }
    size.deviation = deviation;
    INFO("mean " << mean);
    CHECK(product(machine, size) - kLatency == Approx(sum / kDraws).epsilon(0.01));
  }
  // Whole tiles are the least that so many rows can take.
  GemmSize even{512, 1024, 1024, 16, DType::f16}, drawn = even;
  drawn.parts = even.parts = 1000;
  drawn.deviation = 20;
  CHECK(product(machine, drawn) > 1.1 * product(machine, even));
}
