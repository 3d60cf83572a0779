// Steps that are recorded once and replayed: the same bits as steps that are not, whatever differs between steps.
#include <set>

#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

Point small(const std::string& family) {
  Point p;
  p.model = {"small", family, 2, 32, 4, 64, 61, 16};
  p.seq = 16;
  p.micro_batch = 2;
  p.global_batch = 6;
  p.iterations = 7;
  p.warmup = 0;
  p.dropout = 0.1;
  p.lr_warmup = 4;
  p.capture = true;
  return p;
}

void check_same_bits(Point p) {
  const PointResult replayed = run_serially(p);
  p.capture = false;
  const PointResult plain = run_serially(p);
  INFO(p.model.family << " " << name_of(p.precision) << " " << name_of(p.framework));
  REQUIRE(replayed.outcome == plain.outcome);
  CHECK(replayed.losses.size() == 7);
  CHECK(replayed.losses == plain.losses);
  // Dropout and samples differ from step to step.
  CHECK(std::set(replayed.losses.begin(), replayed.losses.end()).size() == 7);
  CHECK(replayed.gradient_norms == plain.gradient_norms);
  CHECK(replayed.skipped_steps == plain.skipped_steps);
}

}  // namespace

TEST_CASE("replayed steps: losses and norms to the bit, in every graph and precision") {
  for (const std::string family : {"gpt", "bert", "llama"})
    for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
      for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16}) {
        Point p = small(family);
        p.framework = keeps(graph);
        p.precision = precision;
        check_same_bits(p);
      }
}

// Scales of the last steps are a history, whose place the device counts.
TEST_CASE("replayed steps in FP8: losses and norms to the bit, by every recipe, with weights in FP8 too") {
  for (const std::string family : {"gpt", "mixtral"})
    for (const NamedChoice<Fp8Recipe>& recipe : choices_of<Fp8Recipe>())
      for (const bool weights : {false, true}) {
        if (weights && recipe.value == Fp8Recipe::rowwise) continue;
        Point p = small(family);
        p.model.hidden = 64, p.model.ffn = 128;
        if (family == "mixtral") p.model.experts = 4, p.model.active_experts = 4, p.dropout = 0;
        p.precision = Precision::fp8, p.fp8_recipe = recipe.value, p.fp8_parameters = weights;
        CAPTURE(recipe.name, weights);
        check_same_bits(p);
      }
}

// Draws differ from step to step, and the device counts the steps.
TEST_CASE("replayed steps in NVFP4: losses and norms to the bit") {
  Point p = small("llama");
  p.model.hidden = 64, p.model.ffn = 128;
  p.precision = Precision::nvfp4;
  check_same_bits(p);
}

TEST_CASE("replayed steps without clipping, with a long warm-up, and words further on") {
  Point p = small("gpt");
  p.clip_grad = 0;
  check_same_bits(p);
  p = small("llama");
  p.model.mtp_layers = 2;
  p.precision = Precision::fp16;
  check_same_bits(p);
}

// Gradients of a loss scale that is too large overflow; which steps those are the host learns when they have ended.
TEST_CASE("a replayed step that overflows in fp16 is skipped, and its loss scale falls for the next") {
  Point p = small("gpt");
  p.precision = Precision::fp16;
  p.learning_rate = 0.5;  // drives activations up until gradients overflow
  p.clip_grad = 0;
  p.iterations = 12;
  const PointResult replayed = run_serially(p);
  p.capture = false;
  const PointResult plain = run_serially(p);
  CHECK(*plain.skipped_steps > 0);
  CHECK(replayed.skipped_steps == plain.skipped_steps);
  CHECK(replayed.losses == plain.losses);
}

TEST_CASE("weights, moments and counted memory after replayed steps are those after steps that are not") {
  Point p = small("gpt");
  SerialRun replayed(p);
  replayed.steps(5);
  const MemoryForecast counted = forecast_memory(strategies::make_plan(p));
  CHECK(replayed.device->memory().peak().total == counted.peak_by_stage.at(0).total);
  CHECK(replayed.device->memory().peak().by_category == counted.peak_by_stage.at(0).by_category);
  p.capture = false;
  SerialRun plain(p);
  plain.steps(5);
  CHECK(floats_of(*replayed.device, replayed.trainer.parameters().weights()) ==
        floats_of(*plain.device, plain.trainer.parameters().weights()));
  // Inputs of all micro batches at once, and the numbers of a step.
  CHECK(replayed.device->memory().peak().total > plain.device->memory().peak().total);
}

TEST_CASE("the meter counts a replayed step as one that is not") {
  Point p = small("gpt");
  const auto counted = [&](bool capture) {
    p.capture = capture;
    SerialRun run(p);
    run.steps(3);
    run.device->meter().reset();
    run.steps(1);
    return run.device->meter();
  };
  const Meter replayed = counted(true), plain = counted(false);
  CHECK(replayed.matmul_flops == plain.matmul_flops);
  CHECK(replayed.launches == plain.launches + 1);  // clipping is an op
}

TEST_CASE("the memory of a recorded step stays its own") {
  SerialRun run(small("gpt"));
  run.steps(1);
  { const Tensor free = run.device->empty({8}, DType::f32, Category::other, "before"); }
  run.steps(1);
  CHECK_THROWS_WITH(run.device->empty({8}, DType::f32, Category::other, "something"),
                    Catch::Contains("for something on a device whose step is replayed"));
}

TEST_CASE("a recorded list of ops holds no memory, and takes no values of the host") {
  const auto device = open_device("cpu", 0);
  const Tensor x = device->empty({4}, DType::f32, Category::other, "x"),
               sum = device->empty({4}, DType::f32, Category::other, "sum");
  run(*device, ops::Fill{x, 2});
  std::size_t during = 0;
  const auto step = device->record([&] {
    const Tensor copy = device->empty({4}, DType::f32, Category::other, "copy");
    run(*device, ops::Copy{x, copy, 3});
    run(*device, ops::Copy{copy, sum});
    during = device->memory().in_use().total;
  });
  CHECK(device->memory().in_use().total < during);
  CHECK(floats_of(*device, sum).front() == 6);
  run(*device, ops::Fill{x, 5});
  step->replay();
  CHECK(floats_of(*device, sum).front() == 15);
  const float value = 1;
  CHECK_THROWS_WITH(device->record([&] { device->read(x, 0); }), Catch::Contains("a read of values within a step"));
  CHECK_THROWS_WITH(device->record([&] { device->write(x, std::as_bytes(std::span(&value, 1))); }),
                    Catch::Contains("a write of values within a step"));
  CHECK(device->recording() == nullptr);
}
