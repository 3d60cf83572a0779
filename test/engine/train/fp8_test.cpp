// Training with products in FP8: close to bf16, the same bits where a region is computed again, and what is kept.
#include "engine/nn/fp8.h"

#include "test/catch.h"
#include "test/engine/train/serial_run.h"

using namespace mbench;
using namespace mbench::test;

namespace {

constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::tensorwise, Fp8Recipe::delayed, Fp8Recipe::blockwise};

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
