// Training with products in FP8: close to bf16, the same bits where a region is computed again, and what is kept.
#include "engine/nn/linear/fp8.h"

#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::tensorwise, Fp8Recipe::delayed, Fp8Recipe::rowwise, Fp8Recipe::blockwise,
                                  Fp8Recipe::mxfp8};
// With weights in FP8 alone.
constexpr Fp8Recipe kWeightRecipes[] = {Fp8Recipe::tensorwise, Fp8Recipe::delayed, Fp8Recipe::blockwise};

Point small(const std::string& family) {
  Point p;
  p.model = {"small", family, 2, 64, 4, 128, 96, 32};
  if (family == "mixtral") p.model.experts = 4, p.model.active_experts = 2;
  p.seq = 32;
  p.micro_batch = 2;
  p.global_batch = 4;
  p.iterations = 5;
  p.warmup = 0;
  p.learning_rate = 1e-3;
  p.precision = Precision::fp8;
  return p;
}

}  // namespace

// An operand of e4m3 is rounded by up to 1/16 of a value, 3.6 % on average, and so is each term of a product; terms are as
// often too large as too small, so a layer's output is off by some 5 % of its own size, a gradient in e5m2 by twice that. Branches add
// to a residual stream that is not rounded, and a loss begins at the logarithm of the vocabulary whatever they add: it stays within
// a hundredth, and the norm of the gradient within a tenth. With delayed scaling the first step has no history: gradients too small for
// e5m2 at a scale of 1 are lost.
TEST_CASE("losses and norms in FP8 are close to those in bf16") {
  for (const std::string family : {"gpt", "llama", "mixtral"})
    for (const Fp8Recipe recipe : kRecipes) {
      CAPTURE(family, name_of(recipe));
      Point p = small(family);
      p.fp8_recipe = recipe;
      const PointResult fp8 = run_serially(p);
      p.precision = Precision::bf16;
      p.fp8_recipe = Fp8Recipe::tensorwise;
      const PointResult bf16 = run_serially(p);
      REQUIRE(fp8.losses.size() == 5);
      for (std::size_t i = 0; i < 5; ++i) {
        CAPTURE(i);
        CHECK(fp8.losses[i] == Approx(bf16.losses[i]).epsilon(0.01));
        if (i > 0 || recipe != Fp8Recipe::delayed)
          CHECK(fp8.gradient_norms[i] == Approx(bf16.gradient_norms[i]).epsilon(0.1));
      }
      CHECK(fp8.losses != bf16.losses);
    }
}

// Codes of e2m1 are up to a sixth of a value off, gradients' ones up to a third, by chance up or down. So a layer's output is off by a
// tenth of its own size; a loss stays within two hundredths.
TEST_CASE("losses and norms in NVFP4 are close to those in bf16") {
  for (const std::string family : {"gpt", "llama", "mixtral"}) {
    CAPTURE(family);
    Point p = small(family);
    p.precision = Precision::nvfp4;
    const PointResult nvfp4 = run_serially(p);
    p.precision = Precision::bf16;
    const PointResult bf16 = run_serially(p);
    REQUIRE(nvfp4.losses.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
      CAPTURE(i);
      CHECK(nvfp4.losses[i] == Approx(bf16.losses[i]).epsilon(0.02));
      CHECK(nvfp4.gradient_norms[i] == Approx(bf16.gradient_norms[i]).epsilon(0.25));
    }
    CHECK(nvfp4.losses != bf16.losses);
  }
}

TEST_CASE("NVFP4 computes the same bits where regions are computed again") {
  Point p = small("llama");
  p.precision = Precision::nvfp4;
  const PointResult kept = run_serially(p);
  p.recompute = Recompute::full;
  const PointResult again = run_serially(p);
  CHECK(again.losses == kept.losses);
  CHECK(again.gradient_norms == kept.gradient_norms);
  CHECK(*again.peak_memory_mib < *kept.peak_memory_mib);
}

// All layers in bf16 but one: losses between the others', and only that layer's weights quantised.
TEST_CASE("the first and the last layers stay in bf16") {
  Point p = small("llama");
  p.model.layers = 4;
  const auto weights = [](const SerialRun& of) {
    return of.device->memory().in_use().by_category[static_cast<int>(Category::weights)];
  };
  const auto run = [&](Precision precision, std::int64_t first, std::int64_t last) {
    p.precision = precision, p.first_layers_in_bf16 = first, p.last_layers_in_bf16 = last;
    SerialRun of(p);
    of.steps(2);
    return weights(of);
  };
  const std::size_t none = run(Precision::bf16, 0, 0), all = run(Precision::fp8, 0, 0);
  CHECK(run(Precision::fp8, 2, 1) - none == (all - none) / 4);
  CHECK(run(Precision::fp8, 0, 2) - none == (all - none) / 2);
  p.precision = Precision::fp8, p.first_layers_in_bf16 = 1, p.last_layers_in_bf16 = 1;
  const PointResult some = run_serially(p);
  p.first_layers_in_bf16 = p.last_layers_in_bf16 = 0;
  CHECK(some.losses != run_serially(p).losses);
  p.precision = Precision::bf16;
  const PointResult bf16 = run_serially(p);
  CHECK(some.losses != bf16.losses);
  CHECK(some.losses.back() == Approx(bf16.losses.back()).epsilon(0.01));
}

TEST_CASE("FP8 computes the same bits where regions are computed again") {
  for (const Fp8Recipe recipe : kRecipes) {
    Point p = small("gpt");
    p.fp8_recipe = recipe;
    const PointResult kept = run_serially(p);
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      CAPTURE(name_of(recipe), name_of(mode));
      p.recompute = mode;
      const PointResult again = run_serially(p);
      CHECK(again.losses == kept.losses);
      CHECK(again.gradient_norms == kept.gradient_norms);
      CHECK(*again.peak_memory_mib < *kept.peak_memory_mib);
    }
  }
}

// Half a byte an element, and a byte for each 16, straight and transposed; each weight's largest value in a block of 512 bytes.
TEST_CASE("weights in NVFP4 take 9 bits for 2 elements, twice") {
  Point p = small("gpt");
  p.model.hidden = 128, p.model.ffn = 256;
  p.precision = Precision::nvfp4;
  SerialRun run(p);
  run.steps(2);
  p.precision = Precision::bf16;
  SerialRun plain(p);
  plain.steps(2);
  const auto weights = [](const SerialRun& of) {
    return of.device->memory().in_use().by_category[static_cast<int>(Category::weights)];
  };
  std::size_t elements = 0, tensors = 0;
  for (const WeightSpec& w : weights_of(run.plan.model, run.plan.vocab))
    if (w.name.find("layers.") == 0 && w.shape.rank() == 2) {
      elements += static_cast<std::size_t>(w.shape.numel());
      ++tensors;
    }
  CHECK(weights(run) - weights(plain) == 2 * elements * 9 / 16 + 512 * tensors);
}

// Of the layers' matrices 33 bytes for 32 elements straight and transposed: a scale of 8 bits for each block of 32. The last
// dims of a small matrix's scales are padded, and blocks of memory rounded to 512 bytes.
TEST_CASE("weights in MXFP8 take a byte and a share of a scale an element, twice") {
  Point p = small("gpt");
  p.model.hidden = 128, p.model.ffn = 256;
  p.fp8_recipe = Fp8Recipe::mxfp8;
  SerialRun run(p);
  run.steps(2);
  p.precision = Precision::bf16, p.fp8_recipe = Fp8Recipe::tensorwise;
  SerialRun plain(p);
  plain.steps(2);
  const auto weights = [](const SerialRun& of) {
    return of.device->memory().in_use().by_category[static_cast<int>(Category::weights)];
  };
  std::size_t elements = 0;
  for (const WeightSpec& w : weights_of(run.plan.model, run.plan.vocab))
    if (w.name.find("layers.") == 0 && w.shape.rank() == 2) elements += static_cast<std::size_t>(w.shape.numel());
  CHECK(elements % (128 * 128) == 0);
  CHECK(weights(run) - weights(plain) == 2 * elements * 33 / 32);
}

// Of the layers' matrices a byte an element either way round, and their scales.
TEST_CASE("weights in FP8 are kept both ways round beside those in bf16") {
  for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::delayed}) {
    CAPTURE(name_of(recipe));
    Point p = small("gpt");
    p.fp8_recipe = recipe;
    SerialRun run(p);
    run.steps(2);
    const auto weights = [](const SerialRun& of) {
      return of.device->memory().in_use().by_category[static_cast<int>(Category::weights)];
    };
    p.precision = Precision::bf16;
    p.fp8_recipe = Fp8Recipe::tensorwise;
    SerialRun plain(p);
    plain.steps(2);
    std::size_t want = 0, tensors = 0;
    for (const WeightSpec& w : weights_of(run.plan.model, run.plan.vocab))
      if (w.name.find("layers.") == 0 && w.shape.rank() == 2) {
        want += 2 * ((static_cast<std::size_t>(w.shape.numel()) + 511) / 512 * 512);
        ++tensors;
      }
    CHECK(tensors == 8);
    // Of its own scale three figures, in a block of 512 bytes.
    if (recipe == Fp8Recipe::tensorwise) want += tensors * 512;
    CHECK(weights(run) - weights(plain) == want);
  }
}

namespace {

// Bytes of the layers' matrices in FP8, one way round, each with the alignment behind it.
std::size_t codes_of(const Plan& plan) {
  std::size_t bytes = 0;
  for (const WeightSpec& w : weights_of(plan.model, plan.vocab))
    if (w.name.find("layers.") == 0 && w.shape.rank() >= 2 && w.name.find("router") == std::string::npos)
      bytes += (static_cast<std::size_t>(w.shape.numel()) + 63) / 64 * 64;
  return bytes;
}

std::size_t weights_of_run(const SerialRun& run) {
  return run.device->memory().in_use().by_category[static_cast<int>(Category::weights)];
}

}  // namespace

// A byte an element either way round, and no 16-bit copy: of the layers' matrices what bf16 takes for its one.
TEST_CASE("weights that live in FP8 alone take half of what they take beside 16 bits") {
  for (const Fp8Recipe recipe : kWeightRecipes) {
    CAPTURE(name_of(recipe));
    Point p = small("gpt");
    p.fp8_recipe = recipe;
    SerialRun both(p);
    both.steps(2);
    p.fp8_parameters = true;
    SerialRun alone(p);
    alone.steps(2);
    // Figures of scales and the 512 bytes to which blocks are rounded: of a matrix there were two, and now there is one.
    const std::size_t saved = weights_of_run(both) - weights_of_run(alone), small = 512 * 2 * 8 + 4 * 512;
    CHECK(saved + small >= 2 * codes_of(alone.plan));
    CHECK(saved <= 2 * codes_of(alone.plan) + small);
    CHECK(alone.trainer.step().gradient_norm > 0);
  }
}

// Quantised from f32 and not from bf16: some codes are the neighbouring ones.
TEST_CASE("losses and norms of weights in FP8 alone are close to those beside 16 bits") {
  for (const std::string family : {"gpt", "llama", "mixtral"})
    for (const Fp8Recipe recipe : kWeightRecipes) {
      CAPTURE(family, name_of(recipe));
      Point p = small(family);
      p.fp8_recipe = recipe;
      const PointResult both = run_serially(p);
      p.fp8_parameters = true;
      const PointResult alone = run_serially(p);
      REQUIRE(alone.losses.size() == 5);
      for (std::size_t i = 0; i < 5; ++i) {
        CAPTURE(i);
        CHECK(alone.losses[i] == Approx(both.losses[i]).epsilon(0.005));
        CHECK(alone.gradient_norms[i] == Approx(both.gradient_norms[i]).epsilon(0.05));
      }
      CHECK(alone.losses != both.losses);
      CHECK(*alone.peak_memory_mib < *both.peak_memory_mib);
    }
}

// Made of 16 bits either way, which here lie where gradients come to lie: the same codes, and no 16-bit copy.
TEST_CASE("weights in MXFP8 alone compute the bits of those beside 16 bits, in two bytes an element less") {
  for (const std::string family : {"gpt", "mixtral"})
    for (const bool megatron : {false, true}) {
      CAPTURE(family, megatron);
      Point p = small(family);
      p.fp8_recipe = Fp8Recipe::mxfp8, p.iterations = 3;
      if (megatron) p.framework = keeps(Graph::megatron_core), p.gradients_in_bf16 = true;
      const PointResult both = run_serially(p);
      SerialRun beside(p);
      beside.steps(1);
      p.fp8_parameters = true;
      const PointResult alone = run_serially(p);
      SerialRun without(p);
      without.steps(1);
      CHECK(alone.losses == both.losses);
      // Weights in FP8 lie behind all others, and so do their gradients: the norm adds them in another order.
      for (std::size_t i = 0; i < both.gradient_norms.size(); ++i)
        CHECK(alone.gradient_norms[i] == Approx(both.gradient_norms[i]).epsilon(1e-6));
      const std::size_t saved = weights_of_run(beside) - weights_of_run(without), small = 512;
      CHECK(saved + small >= 2 * codes_of(without.plan));
      CHECK(saved <= 2 * codes_of(without.plan) + small);
      CHECK(*alone.peak_memory_mib ==
            static_cast<double>(forecast_memory(without.plan).peak_by_stage.at(0).total) / 1048576);
    }
}

TEST_CASE("weights in FP8 alone compute the same bits where regions are computed again") {
  Point p = small("llama");
  p.fp8_parameters = true;
  const PointResult kept = run_serially(p);
  p.recompute = Recompute::full;
  const PointResult again = run_serially(p);
  CHECK(again.losses == kept.losses);
  CHECK(again.gradient_norms == kept.gradient_norms);
}

namespace {

// A step of FP8 operands as they lie, or transposed, on the CPU; and what counting devices say of its memory.
struct Turned {
  std::vector<double> losses, norms;
  std::array<std::size_t, kCategories> peak{}, counted{};
  std::size_t weights = 0;
};
Turned run_turned(const Point& p, bool turned) {
  Plan plan = strategies::make_plan(p);
  plan.precision.turned_fp8 = turned;
  SerialRun run(p, plan);
  run.steps(3);
  const auto device = open_device("cpu", 0);
  const PointResult r = run_point(p, plan, *device, *lone_world(0, 1), {});
  return {r.losses, r.gradient_norms, run.device->memory().peak().by_category,
          forecast_memory(plan).peak_by_stage.at(0).by_category, weights_of_run(run)};
}

}  // namespace

// One copy of the codes serves all GEMMs, so that every product has the same operands: the same bits, and less memory.
TEST_CASE("operands that are multiplied as they lie give the bits of transposed ones, in less memory") {
  for (const std::string family : {"gpt", "mixtral"})
    for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::delayed})
      for (const bool alone : {false, true}) {
        CAPTURE(family, name_of(recipe), alone);
        Point p = small(family);
        p.fp8_recipe = recipe, p.fp8_parameters = alone;
        const Turned transposed = run_turned(p, false), turned = run_turned(p, true);
        CHECK(turned.losses == transposed.losses);
        CHECK(turned.norms == transposed.norms);
        CHECK(turned.peak == turned.counted);
        CHECK(transposed.peak == transposed.counted);
        // A byte an element of the layers' matrices.
        const std::size_t codes = codes_of(strategies::make_plan(p)), saved = transposed.weights - turned.weights;
        CHECK(saved >= codes);
        CHECK(saved <= codes + codes / 8);
      }
}

// Scales of rows or blocks are of one direction: there the device's layouts change nothing.
TEST_CASE("operands with scales of blocks are made both ways round on every device") {
  for (const Fp8Recipe recipe : {Fp8Recipe::rowwise, Fp8Recipe::blockwise, Fp8Recipe::mxfp8}) {
    CAPTURE(name_of(recipe));
    Point p = small("gpt");
    p.fp8_recipe = recipe;
    const Turned transposed = run_turned(p, false), turned = run_turned(p, true);
    CHECK(turned.losses == transposed.losses);
    CHECK(turned.peak == transposed.peak);
  }
}

// A transposed copy is made of the straight codes, for each use or for the step: the same bits. Without it a byte an element of the
// layers' matrices is not kept from one micro batch to the next.
TEST_CASE("transposed copies of weights that are freed after each use give the same bits, in less memory") {
  for (const std::string family : {"llama", "mixtral"})
    for (const Fp8Recipe recipe : kWeightRecipes)
      for (const bool alone : {false, true}) {
        CAPTURE(family, name_of(recipe), alone);
        Point p = small(family);
        p.fp8_recipe = recipe, p.fp8_parameters = alone, p.framework = keeps(Graph::megatron_core);
        const Turned kept = run_turned(p, false);
        p.framework.options["keep_fp8_weight_transpose_cache"] = "false";
        const Turned freed = run_turned(p, false);
        CHECK(freed.losses == kept.losses);
        CHECK(freed.norms == kept.norms);
        CHECK(freed.peak == freed.counted);
        const std::size_t codes = codes_of(strategies::make_plan(p)), saved = kept.weights - freed.weights;
        CHECK(saved >= codes);
        CHECK(saved <= codes + codes / 8);
      }
}

TEST_CASE("the Hadamard transform of 16 keeps products") {
  float a[16], b[16];
  double before = 0, after = 0, spread = 0;
  for (int i = 0; i < 16; ++i) {
    a[i] = i == 5 ? 100.0f : 1.0f, b[i] = static_cast<float>(i) - 3;
    before += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  ops::Hadamard16::apply(a), ops::Hadamard16::apply(b);
  for (int i = 0; i < 16; ++i) {
    after += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    spread = std::max(spread, std::fabs(static_cast<double>(a[i])));
  }
  CHECK(after == Approx(before));
  CHECK(spread < 30);  // where the largest was 100
}
