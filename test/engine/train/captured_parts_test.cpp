// Parts of layers that are recorded once and replayed: the same bits as parts that are not, in the same memory.
#include <set>

#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

constexpr CapturedPart kAttention = CapturedPart::attention, kMlp = CapturedPart::mlp, kMoe = CapturedPart::moe,
                       kRouter = CapturedPart::moe_router, kPreprocess = CapturedPart::moe_preprocess,
                       kLayer = CapturedPart::layer;

Point small(const std::string& family) {
  Point p;
  p.model = {"small", family, 2, 32, 4, 64, 61, 16};
  if (family == "mixtral") p.model.experts = 4, p.model.active_experts = 2, p.model.dense_layers = 1;
  p.seq = 16;
  p.micro_batch = 2;
  p.global_batch = 6;
  p.iterations = 4;
  p.warmup = 0;
  p.dropout = family == "mixtral" ? 0 : 0.1;
  p.lr_warmup = 4;
  return p;
}

void check_same_bits(Point p, const std::vector<CapturedParts>& ways) {
  const PointResult plain = run_serially(p);
  REQUIRE(plain.outcome == Outcome::ok);
  for (const CapturedParts parts : ways) {
    p.capture = parts;
    INFO(p.model.family << " " << name_of(p.precision) << " " << name_of(p.framework) << " " << name_of(parts));
    const auto refusal = strategies::why_not(p);
    INFO((refusal ? refusal->reason : ""));
    REQUIRE(!refusal);
    const PointResult replayed = run_serially(p);
    REQUIRE(replayed.outcome == plain.outcome);
    CHECK(replayed.losses.size() == 4);
    CHECK(replayed.losses == plain.losses);
    CHECK(replayed.gradient_norms == plain.gradient_norms);
    // Dropout and samples differ from step to step.
    CHECK(std::set(replayed.losses.begin(), replayed.losses.end()).size() == 4);
  }
}

std::int64_t replays(Point p, CapturedParts parts) {
  p.capture = parts;
  SerialRun run(p);
  run.steps(2);
  CHECK(run.trainer.replayed_parts() == 0);
  run.steps(1);
  return run.trainer.replayed_parts();
}

}  // namespace

TEST_CASE("captured parts: losses and norms to the bit, in every graph") {
  for (const std::string family : {"gpt", "bert", "llama"}) {
    Point p = small(family);
    p.framework = keeps(family == "gpt" ? Graph::eager : family == "bert" ? Graph::megatron_core : Graph::fused);
    p.precision = family == "llama" ? Precision::bf16 : Precision::f32;
    check_same_bits(p, {{kAttention}, {kAttention, kMlp}, {kLayer}});
  }
  for (const Graph graph : {Graph::fused, Graph::megatron_core}) {
    Point p = small("mixtral");
    p.framework = keeps(graph);
    check_same_bits(p, {{kRouter}, {kAttention, kMlp, kRouter, kPreprocess}});
    p.router = {Routing::capacity, 2};
    check_same_bits(p, {{kMoe}, {kLayer}});
  }
}

TEST_CASE("captured parts in FP8, with recompute within them, and with words further on: losses to the bit") {
  Point p = small("llama");
  p.model.hidden = 64, p.model.ffn = 128, p.model.mtp_layers = 1;
  p.precision = Precision::fp8;
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::mxfp8}) {
    p.fp8_recipe = recipe;
    check_same_bits(p, {{kAttention, kMlp}});
  }
  p = small("llama");
  p.precision = Precision::bf16;
  for (const Regions regions : {Regions{Region::core_attention, Region::mlp}, Regions{Region::alternate_gemms}}) {
    p.recompute.regions = regions;
    check_same_bits(p, {{kAttention, kMlp}, {kLayer}});
  }
  p = small("mixtral");
  p.recompute.regions = {Region::moe_act, Region::norm};
  check_same_bits(p, {{kAttention, kRouter, kPreprocess}});
}

// Steps that overflow are skipped, and the loss scale that the host decides falls between two replays.
TEST_CASE("captured parts in fp16: a step that overflows is skipped") {
  Point p = small("gpt");
  p.precision = Precision::fp16;
  p.learning_rate = 0.5;
  p.clip_grad = 0;
  p.iterations = 12;
  const PointResult plain = run_serially(p);
  p.capture = CapturedParts{kAttention, kMlp};
  const PointResult replayed = run_serially(p);
  CHECK(*plain.skipped_steps > 0);
  CHECK(replayed.skipped_steps == plain.skipped_steps);
  CHECK(replayed.losses == plain.losses);
}

TEST_CASE("captured parts: every one of a micro batch is a replay from the third step on") {
  const Point p = small("mixtral");  // 3 micro batches, a dense layer and one with experts
  CHECK(replays(p, {kAttention}) == 3 * 2 * 2);
  CHECK(replays(p, {kAttention, kMlp}) == 3 * (2 + 1) * 2);
  // The norm and the router, each forward and backward; the plan of rows and the rows, forward, and their gradient.
  CHECK(replays(p, {kRouter}) == 3 * 2 * 2);
  CHECK(replays(p, {kRouter, kPreprocess}) == 3 * (2 * 2 + 2 + 1));
  Point full = p;
  full.router = {Routing::capacity, 2};
  CHECK(replays(full, {kLayer}) == 3 * 2 * 2);
}

TEST_CASE("captured parts take the memory of a step without, the number of the step and inputs of their own") {
  for (const Graph graph : {Graph::fused, Graph::megatron_core}) {
    Point p = small("llama");
    p.framework = keeps(graph);
    SerialRun plain(p);
    plain.steps(4);
    p.capture = CapturedParts{kAttention, kMlp};
    SerialRun replayed(p);
    replayed.steps(4);
    const MemoryForecast counted = forecast_memory(strategies::make_plan(p));
    CHECK(replayed.device->memory().peak().total == counted.peak_by_stage.at(0).total);
    CHECK(replayed.device->memory().peak().by_category == counted.peak_by_stage.at(0).by_category);
    const std::size_t more = replayed.device->memory().peak().total - plain.device->memory().peak().total;
    if (graph == Graph::fused) CHECK(more == Allocator::kRounding);
  }
}

TEST_CASE("a device replays in place of what it is not given") {
  const auto device = open_device("cpu", 0);
  PartGraphs graphs;
  int ran = 0;
  for (std::int64_t step = 0; step < 4; ++step) {
    graphs.begin_step(*device, step);
    graphs.run(*device, {&ran, 0}, true, [&] { ++ran; });
  }
  CHECK(ran == 4);
  CHECK(graphs.replays() == 2);
  // Other memory before it than when it was recorded.
  graphs.begin_step(*device, 4);
  const Tensor other = device->empty({8}, DType::f32, Category::other, "other");
  CHECK_THROWS_WITH(graphs.run(*device, {&ran, 0}, true, [] {}), Catch::Contains("other memory before a captured"));
}
