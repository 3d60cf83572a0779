// The optimizer against AdamW written out in double, with gradients set by hand.
#include "engine/train/optimizer.h"

#include <limits>

#include "engine/base/half.h"
#include "test/engine/nn/module_test.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::train;
using namespace mbench::test;

namespace {

Point settings(Precision precision, Graph graph) {
  Point p = ModuleTest::small("gpt");
  p.precision = precision;
  p.framework = keeps(graph);
  p.learning_rate = 1e-2;
  p.weight_decay = 0.1;
  p.clip_grad = 1;
  p.lr_warmup = 4;
  return p;
}

WeightSpec named(const char* name, const Shape& shape) {
  WeightSpec w;
  w.name = name;
  w.shape = shape;
  w.stddev = 0.5f;
  return w;
}

class OptimizerTest : public ModuleTest {
 public:
  explicit OptimizerTest(const Point& point) : ModuleTest(point) {
    const auto add = [&](const char* name, const Shape& shape) { return store.add(named(name, shape), {}, {}); };
    add("matrix", {3, 70});
    add("copy", {4, 5})->counted = false;
    add("bias", {7});
    add("another", {2, 9});
    store.close_unit();
    store.allocate_and_initialise();
    use_all();
    optimizer = std::make_unique<Optimizer>(*device, plan, store, groups);
    for (const auto& p : store.all()) {
      const Floats start = get(main(*p));
      reference.push_back({{start.begin(), start.end()}, Doubles(start.size(), 0), Doubles(start.size(), 0)});
    }
  }

  using Doubles = std::vector<double>;
  struct State {
    Doubles value, m, v;
  };

  Tensor main(const Parameter& p) { return store.main().part(p.offset, p.local); }

  // Values that f16 holds exactly, so that all precisions see the same gradients.
  std::vector<Floats> gradients(float size) {
    std::vector<Floats> all;
    for (const auto& p : store.all()) {
      all.push_back(draw(p->local.numel(), -size, size));
      for (float& g : all.back()) g = to_float(from_float<f16>(g));
    }
    return all;
  }

  // Writes them as a backward under the present loss scale would.
  void put_gradients(const std::vector<Floats>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Floats scaled = all[i];
      for (float& g : scaled) g *= optimizer->loss_scale();
      const Tensor& to = store.all()[i]->gradient;
      if (to.dtype() == DType::f16) {
        std::vector<f16> half;
        for (const float g : scaled) half.push_back(from_float<f16>(g));
        device->write(to, std::as_bytes(std::span(half)));
      } else {
        set(to, scaled);
      }
    }
  }

  double norm(const std::vector<Floats>& all) const {
    double squares = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (store.all()[i]->counted)
        for (const float g : all[i]) squares += static_cast<double>(g) * g;
    return std::sqrt(squares);
  }

  // Step `taken` of Adam, which is step `seen` of the learning-rate ramp (both from 1).
  void reference_step(const std::vector<Floats>& all, int taken, int seen) {
    const TrainingPlan& p = plan.training;
    const double lr = p.learning_rate * std::min(1.0, seen / static_cast<double>(p.lr_warmup));
    const double clip = p.clip_grad > 0 ? std::min(1.0, p.clip_grad / (norm(all) + 1e-6)) : 1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      State& s = reference[i];
      const double decay = store.all()[i]->spec.shape.rank() == 2 ? p.weight_decay : 0;
      for (std::size_t e = 0; e < s.value.size(); ++e) {
        const double g = clip * all[i][e];
        s.m[e] = 0.9 * s.m[e] + 0.1 * g;
        s.v[e] = 0.999 * s.v[e] + 0.001 * g * g;
        const double m = s.m[e] / (1 - std::pow(0.9, taken)), v = s.v[e] / (1 - std::pow(0.999, taken));
        s.value[e] -= lr * (m / (std::sqrt(v) + 1e-8) + decay * s.value[e]);
      }
    }
  }

  void check_weights() {
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const Parameter& p = *store.all()[i];
      INFO(p.name());
      const Floats now = get(main(p));
      double worst = 0;
      for (std::size_t e = 0; e < now.size(); ++e) worst = std::max(worst, std::fabs(now[e] - reference[i].value[e]));
      CHECK(worst < 2e-6);
      if (p.value.dtype() != DType::f32) check_rounded(p, now);
    }
  }

  std::unique_ptr<Optimizer> optimizer;
  std::vector<State> reference;

 private:
  // The weights that the model computes with are the main weights, rounded.
  void check_rounded(const Parameter& p, const Floats& main) {
    std::vector<std::uint16_t> bits(main.size());
    device->read(p.value, std::as_writable_bytes(std::span(bits)));
    std::size_t different = 0;
    for (std::size_t e = 0; e < bits.size(); ++e)
      different +=
          bits[e] != (p.value.dtype() == DType::f16 ? from_float<f16>(main[e]).bits : from_float<bf16>(main[e]).bits);
    CHECK(different == 0);
  }
};

constexpr Precision kPrecisions[] = {Precision::f32, Precision::bf16, Precision::fp16};

}  // namespace

TEST_CASE("the optimizer is AdamW with clipping by the global norm, warm-up and decay of matrices alone") {
  for (const Precision precision : kPrecisions) {
    for (const Graph graph : {Graph::eager, Graph::fused}) {
      INFO(name_of(precision) << ", graph " << name_of(graph));
      OptimizerTest t(settings(precision, graph));
      int step = 0, clipped = 0;
      for (const float size : {0.02f, 0.5f, 0.01f, 0.25f, 0.1f, 0.04f}) {
        INFO("step " << ++step);
        const auto gradients = t.gradients(size);
        clipped += t.norm(gradients) > 1;
        t.put_gradients(gradients);
        const Optimizer::Outcome outcome = t.optimizer->step();
        CHECK(!outcome.skipped);
        CHECK(outcome.gradient_norm == Approx(t.norm(gradients)).epsilon(1e-6));
        t.reference_step(gradients, step, step);
        t.check_weights();
      }
      // Some steps were clipped and some not.
      CHECK(clipped > 0);
      CHECK(clipped < step);
    }
  }
}

TEST_CASE("clip_grad 0 switches clipping off") {
  Point point = settings(Precision::f32, Graph::fused);
  point.clip_grad = 0;
  OptimizerTest t(point);
  for (int step = 1; step <= 3; ++step) {
    const auto gradients = t.gradients(step == 2 ? 8.0f : 0.5f);
    t.put_gradients(gradients);
    CHECK(t.optimizer->step().gradient_norm > 1);
    t.reference_step(gradients, step, step);
    t.check_weights();
  }
}

TEST_CASE("an fp16 overflow is skipped: no weight and no moment moves, the loss scale is halved") {
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      INFO("graph " << name_of(graph) << ", gradient " << bad);
      OptimizerTest t(settings(Precision::fp16, graph));
      CHECK(t.optimizer->loss_scale() == 65536);
      int taken = 0;
      for (int seen = 1; seen <= 5; ++seen) {
        auto gradients = t.gradients(0.1f);
        const bool overflow = seen == 1 || seen == 3;
        if (overflow) gradients[2][4] = bad;
        t.put_gradients(gradients);
        CHECK(t.optimizer->step().skipped == overflow);
        // The ramp of the learning rate goes on, the bias correction of Adam does not.
        if (!overflow) t.reference_step(gradients, ++taken, seen);
        t.check_weights();
      }
      CHECK(t.optimizer->loss_scale() == 16384);
    }
  }
}

TEST_CASE("in other precisions a gradient that is not finite moves nothing and is not called skipped") {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    OptimizerTest t(settings(precision, Graph::fused));
    auto gradients = t.gradients(0.1f);
    gradients[0][100] = std::numeric_limits<float>::infinity();
    t.put_gradients(gradients);
    const Optimizer::Outcome outcome = t.optimizer->step();
    CHECK(!outcome.skipped);
    CHECK(!std::isfinite(outcome.gradient_norm));
    t.check_weights();
  }
}

TEST_CASE("loss scaler: halves on overflow, doubles after a thousand good steps, never below 1") {
  LossScaler scaler(true);
  CHECK(scaler.scale() == 65536);
  const auto good = [&](int steps) {
    for (int i = 0; i < steps; ++i) scaler.update(false);
  };
  good(999);
  CHECK(scaler.scale() == 65536);
  good(1);
  CHECK(scaler.scale() == 131072);
  good(999);
  scaler.update(true);  // starts the count again
  CHECK(scaler.scale() == 65536);
  good(999);
  CHECK(scaler.scale() == 65536);
  good(1);
  CHECK(scaler.scale() == 131072);
  for (int i = 0; i < 40; ++i) scaler.update(true);
  CHECK(scaler.scale() == 1);

  LossScaler off(false);
  off.update(true);
  CHECK(off.scale() == 1);
}
