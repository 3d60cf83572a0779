// What a run allocates: against the published formulas for activations, against its own limit, and over time.
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/sim/run/counting.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;

namespace {

// Long and narrow, so that activations make the peak.
Point narrow(std::int64_t layers) {
  Point p;
  p.model = {"narrow", "gpt", layers, 64, 4, 256, 256, 128};
  p.seq = 128;
  p.micro_batch = p.global_batch = 4;
  p.dropout = 0.1;
  return p;
}

// Bytes that one more layer adds to the activations at the peak of a rank, counted without computing.
std::int64_t bytes_of_a_layer(Point p) {
  std::int64_t bytes[2];
  for (int i = 0; i < 2; ++i) {
    p.model.layers = 3 + i;
    const MemoryForecast forecast = forecast_memory(strategies::make_plan(p));
    bytes[i] =
        static_cast<std::int64_t>(forecast.peak_by_stage[0].by_category[static_cast<int>(Category::activations)]);
  }
  return bytes[1] - bytes[0];
}

MemoryUse peak_of(const Point& p, int steps = 2) {
  SerialRun run(p);
  run.steps(steps);
  return run.device->memory().peak();
}

}  // namespace

// Korthikanti et al. 2022, table 2, in bytes of 16-bit training: s b h (10 + 24/t + 5 a s / (h t)) with
// tensor parallelism alone, s b h (34 + 5 a s / h) / t with sequence parallelism, s b h 34 / t with selective
// recompute, 2 s b h / t with full. Not in the table: 16 bytes a position and sample for the means and
// deviations of two norms.
TEST_CASE("an eager layer keeps what the paper says, to the byte") {
  for (const std::int64_t t : {1, 2, 4}) {
    for (const bool split : {false, true}) {
      INFO("tp " << t << ", sequence parallel " << split);
      Point p = narrow(3);
      p.precision = Precision::fp16;
      p.framework = keeps(Graph::eager);
      p.tp = t;
      p.sequence_parallel = split;
      const std::int64_t s = p.seq, b = p.micro_batch, h = p.model.hidden, a = p.model.heads;
      const std::int64_t whole = split ? t : 1;  // what tensor parallelism alone does not divide
      const std::int64_t linear = 10 * s * b * h / whole + 24 * s * b * h / t + 16 * s * b / whole;
      CHECK(bytes_of_a_layer(p) == linear + 5 * a * s * s * b / t);
      p.recompute = Recompute::selective;
      CHECK(bytes_of_a_layer(p) == linear);
      p.recompute = Recompute::full;
      CHECK(bytes_of_a_layer(p) == 2 * s * b * h / whole);
    }
  }
}

// Without masks (drawn again) and without the probabilities after dropout; flash keeps the row statistics
// alone.
TEST_CASE("a fused layer keeps less") {
  Point p = narrow(3);
  p.precision = Precision::bf16;
  const std::int64_t s = p.seq, b = p.micro_batch, h = p.model.hidden, a = p.model.heads;
  const std::int64_t linear = 32 * s * b * h + 16 * s * b, statistics = 4 * a * s * b;
  CHECK(bytes_of_a_layer(p) == linear + statistics + 2 * a * s * s * b);
  p.attention = AttentionKind::flash;
  CHECK(bytes_of_a_layer(p) == linear + statistics);
  p.recompute = Recompute::selective;
  CHECK(bytes_of_a_layer(p) == linear);
}

// Of an RMS norm an f32 copy of its input in place of the input, and what gamma multiplies; of SwiGLU the activated gates.
TEST_CASE("a layer of PyTorch's small ops keeps what autograd does") {
  Point p = narrow(3);
  p.model.family = "llama";
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.dropout = 0;
  const std::int64_t s = p.seq, b = p.micro_batch, h = p.model.hidden, ffn = p.model.ffn;
  const std::int64_t fused = bytes_of_a_layer(p);
  p.framework = {.preset = "torch-eager", .host = "mbench"};
  CHECK(bytes_of_a_layer(p) == fused + s * b * (2 * 4 * h + 2 * ffn));
  p.recompute = Recompute::full;
  CHECK(bytes_of_a_layer(p) == 2 * s * b * h);
  // A run for real keeps the same, and computes the same but for gradients that are rounded before they are added.
  p.iterations = 3, p.warmup = 0, p.learning_rate = 1e-3;
  std::vector<double> losses;
  for (const FrameworkSpec& framework : {FrameworkSpec(), p.framework}) {
    p.framework = framework;
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      p.recompute = recompute;
      const PointResult result = run_serially(p);
      REQUIRE(result.losses.size() == 3);
      if (losses.empty()) losses = result.losses;
      for (std::size_t i = 0; i < losses.size(); ++i) CHECK(result.losses[i] == Approx(losses[i]).epsilon(2e-3));
      CHECK(*result.peak_memory_mib * 1048576 ==
            static_cast<double>(forecast_memory(strategies::make_plan(p)).peak_by_stage[0].total));
    }
  }
}

TEST_CASE("in a real run recompute and flash lower the peak") {
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    INFO("graph " << name_of(graph));
    Point p = narrow(4);
    p.framework = keeps(graph);
    const std::size_t none = peak_of(p).total;
    p.recompute = Recompute::selective;
    const std::size_t selective = peak_of(p).total;
    p.recompute = Recompute::full;
    const std::size_t full = peak_of(p).total;
    p.recompute = Recompute::none;
    p.attention = AttentionKind::flash;
    const std::size_t flash = peak_of(p).total;
    CHECK(none > selective);
    CHECK(selective > full);
    CHECK(none > flash);
  }
}

TEST_CASE("the peak is the sum of its categories, each with what belongs there") {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16}) {
    INFO(name_of(precision));
    Point p = narrow(2);
    p.precision = precision;
    SerialRun run(p);
    run.steps(2);
    const MemoryUse& peak = run.device->memory().peak();
    CHECK(std::accumulate(peak.by_category.begin(), peak.by_category.end(), std::size_t{0}) == peak.total);
    CHECK(peak.total <= run.device->memory().reserved());
    // Bytes an element: weights, gradients, and the optimizer's two moments and, in 16 bit, f32 weights.
    const auto n = static_cast<std::size_t>(run.trainer.parameters().size());
    const bool half = precision != Precision::f32;
    const auto in = [&](Category c) { return peak.by_category[static_cast<int>(c)] / n; };
    CHECK(in(Category::weights) == (half ? 2 : 4));
    CHECK(in(Category::gradients) == (precision == Precision::fp16 ? 2 : 4));
    CHECK(in(Category::optimizer) == (half ? 12 : 8));
    CHECK(peak.by_category[static_cast<int>(Category::activations)] > 0);
  }
}

// Megatron-Core's distributed optimizer: `main_grad.float()`, but `decoupled_grad` where it is aware of precisions.
TEST_CASE("16-bit gradients are copied to f32 but for an optimizer with moments in 16 bits") {
  Point p = narrow(2);
  p.framework = keeps(Graph::megatron_core);
  p.seq = 16, p.micro_batch = p.global_batch = 1;  // state makes the peak
  p.gradients_in_bf16 = true;
  const auto bytes_an_element = [&](Precision precision, Fp8Recipe recipe, bool moments_in_bf16) {
    p.precision = precision, p.fp8_recipe = recipe, p.moments_in_bf16 = moments_in_bf16;
    SerialRun run(p);
    run.steps(2);
    return run.device->memory().peak().by_category[static_cast<int>(Category::gradients)] /
           static_cast<std::size_t>(run.trainer.parameters().size());
  };
  CHECK(bytes_an_element(Precision::bf16, Fp8Recipe::tensorwise, false) == 2 + 4);
  CHECK(bytes_an_element(Precision::bf16, Fp8Recipe::tensorwise, true) == 2);
  CHECK(bytes_an_element(Precision::fp8, Fp8Recipe::delayed, true) == 2);
  CHECK(bytes_an_element(Precision::fp8, Fp8Recipe::tensorwise, true) == 2 + 4);
}

TEST_CASE("after the first step nothing more is asked of the system, and nothing is left behind") {
  for (const std::string family : {"gpt", "bert"}) {
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
        INFO(family << ", graph " << name_of(graph) << ", recompute " << name_of(mode));
        Point p = narrow(2);
        p.model.family = family;
        p.framework = keeps(graph);
        p.recompute = mode;
        p.micro_batch = 2;  // two micro batches
        p.precision = Precision::fp16;
        SerialRun run(p);
        run.trainer.step();
        Allocator& memory = run.device->memory();
        const std::uint64_t asked = memory.raw_allocations();
        const std::size_t after_first = memory.in_use().total, peak = memory.peak().total;
        run.steps(3);
        CHECK(memory.raw_allocations() == asked);
        CHECK(memory.in_use().total == after_first);
        CHECK(memory.peak().total == peak);
        // Between steps no activation is held.
        CHECK(memory.in_use().by_category[static_cast<int>(Category::activations)] == 0);
      }
    }
  }
  const auto device = open_device("cpu", 0);
  {
    const Plan plan = strategies::make_plan(narrow(2));
    const auto world = lone_world(0, 1);
    const auto data = open_data("synthetic", 256, 128, 1);
    Trainer(plan, *device, *world, data.get()).step();
  }
  CHECK(device->memory().in_use().total == 0);
}

TEST_CASE("a memory limit stops the run with the allocation and its category") {
  Point p = narrow(2);
  p.model.vocab = 65536;  // weights well above the granule of the device's memory
  p.seq = 16;
  std::size_t needed = 0, weights = 0;
  {
    SerialRun run(p);
    run.steps(2);
    needed = run.device->memory().reserved() + run.device->library_bytes();
    weights = run.trainer.parameters().weights().bytes();
  }
  const auto message = [&](std::size_t limit) -> std::string {
    p.memory_limit = limit;
    try {
      SerialRun limited(p);
      limited.steps(2);
    } catch (const OutOfMemory& e) {
      CHECK(e.kind() == ErrorKind::out_of_memory);
      return e.what();
    }
    return "";
  };
  CHECK(message(needed) == "");
  struct Case {
    std::size_t limit;
    const char *what, *category;
  };
  // In the order of the allocations: weights, gradients, two moments, and then the steps.
  for (const Case& c :
       {Case{weights / 2, "weights", "weights"}, Case{weights * 3 / 2, "gradients", "gradients"},
        Case{weights * 5 / 2, "Adam first moment", "optimizer"},
        Case{weights * 7 / 2, "Adam second moment", "optimizer"}, Case{weights * 9 / 2, "", "activations"}}) {
    const std::string text = message(c.limit);
    INFO(c.limit << " bytes: " << text);
    CHECK(text.find(fmt::format("out of memory at {}", c.what)) != std::string::npos);
    CHECK(text.find(fmt::format("({})", c.category)) != std::string::npos);
    CHECK(text.find("the limit of " + format_bytes(c.limit)) != std::string::npos);
  }
}

// The first backward makes placeholders of weights' gradients, behind the peak of a step of one micro batch.
TEST_CASE("a forecast is of the steady state, whose steps find what the first one has left") {
  for (const std::int64_t micro_batches : {1, 2, 5}) {
    INFO(micro_batches << " micro batches");
    Point p = narrow(4);
    p.framework = keeps(Graph::megatron_core);
    p.global_batch = p.micro_batch * micro_batches;
    const MemoryForecast forecast = forecast_memory(strategies::make_plan(p));
    SerialRun run(p);
    run.trainer.step();
    const MemoryUse first = run.device->memory().peak();
    run.steps(2);
    CHECK(forecast.peak_by_stage[0].total == run.device->memory().peak().total);
    CHECK(forecast.peak_by_stage[0].by_category == run.device->memory().peak().by_category);
    CHECK(forecast.reserved_by_stage[0] == run.device->memory().reserved());
    CHECK((forecast.peak_by_stage[0].total > first.total) == (micro_batches == 1));
  }
}

TEST_CASE("a forecast is out of memory where the run would be") {
  Point p = narrow(4);
  const MemoryForecast forecast = forecast_memory(strategies::make_plan(p));
  SerialRun run(p);
  run.trainer.step();
  REQUIRE(forecast.peak_by_stage.size() == 1);
  CHECK(forecast.peak_by_stage[0].total == run.device->memory().peak().total);
  CHECK(forecast.peak_by_stage[0].by_category == run.device->memory().peak().by_category);
  p.memory_limit = forecast.peak_by_stage[0].total / 2;
  CHECK_THROWS_AS(forecast_memory(strategies::make_plan(p), p.memory_limit), OutOfMemory);
}

// Of a layer's linear parts: codes of 4 bits and a scale for each 64 weights, or the scale in 8 bits, a number for each 256 of them and
// one for all; or codes of 8 bits with a scale and its inverse.
TEST_CASE("a frozen base in 4 or 8 bits takes what its codes and scales do, to the byte") {
  Point p = narrow(2);
  p.model = {"llama", "llama", 2, 128, 4, 512, 256, 128};
  p.precision = Precision::bf16;
  const auto weights = [&](const char* adapter) {
    p.adapter = read_adapter(adapter, "test");
    return static_cast<std::int64_t>(
        count_state(strategies::make_plan(p), 0).by_category[static_cast<int>(Category::weights)]);
  };
  // An allocation is a multiple of 512 bytes.
  const auto room = [](std::int64_t bytes) { return (bytes + 511) / 512 * 512; };
  const std::int64_t h = p.model.hidden, f = p.model.ffn;
  std::int64_t all = 0, matrices = 0, scales_of_scales = 0;
  for (const std::int64_t n : {3 * h * h, h * h, 2 * f * h, f * h}) {
    all += 2 * n, matrices += 2;
    scales_of_scales += 2 * (((n / 64 + 255) / 256 + 3) / 4 * 4);  // a part begins at a multiple of 16 bytes
  }
  const std::int64_t in_16_bits = weights("lora:4") - 2 * all;
  CHECK(weights("lora:4,base=nf4") == in_16_bits + all / 2 + 4 * all / 64);
  CHECK(weights("lora:4,base=nf4-double") ==
        in_16_bits + all / 2 + all / 64 + room(4 * scales_of_scales) + room(16 * matrices));
  p.precision = Precision::fp8;
  p.fp8_parameters = true;
  CHECK(weights("lora:4") == in_16_bits + all + 2 * room(4 * matrices));
}
