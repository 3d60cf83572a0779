#include "test/engine/nn/module_test.h"

#include <algorithm>
#include <limits>

namespace mbench::test {
namespace {

double squares(const Floats& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

}  // namespace

nn::MicroBatch ModuleTest::batch() {
  const TrainingPlan& p = plan.training;
  const std::int64_t seq = p.seq, samples = p.micro_batch, rows = seq * samples, vocab = plan.model.vocab;
  const bool masked = plan.model.parts().objective == Objective::masked_words_and_order;
  std::vector<std::int64_t> tokens, labels, positions, types;
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(rows), 1);
  for (std::int64_t s = 0; s < seq; ++s) {
    for (std::int64_t b = 0; b < samples; ++b) {
      // Words come up more than once, and the last word of the vocabulary among them.
      tokens.push_back((vocab - 1 - 3 * s * (b + 1) % 7) % vocab);
      labels.push_back((5 * s + 2 * b) % vocab);
      positions.push_back(s);
      types.push_back(s >= seq / 2);
    }
  }
  nn::MicroBatch batch;
  batch.sample0 = 4;
  batch.tokens = ids({seq, samples}, tokens);
  batch.labels = ids({seq, samples}, labels);
  batch.positions = ids({seq, samples}, positions);
  batch.weights = random({seq, samples}, 0, 1);
  batch.inv_weight_sum = 0.3f;
  batch.loss = put({1}, {0});
  if (masked || plan.model.labels > 0) {
    std::vector<std::int64_t> classes;
    for (std::int64_t b = 0; b < samples; ++b)
      classes.push_back(b % (plan.model.labels > 0 ? plan.model.labels : std::int64_t{2}));
    batch.classes = ids({samples}, classes);
    batch.classes_inv_weight_sum = 1.0f / static_cast<float>(samples);
  }
  if (masked) {
    keep.back() = 0;
    batch.token_types = ids({seq, samples}, types);
    batch.keep = flags({1, samples, seq}, keep);
  }
  if (plan.keeps().attention_mask) {
    const std::int64_t masks = masked ? samples : 1;
    batch.attention_mask = flags({masks, seq, seq}, std::vector<std::uint8_t>(masks * seq * seq, 0));
    run(*device, ops::AttentionMask{keys_of(batch), batch.attention_mask});
  }
  return batch;
}

// df along `direction`: (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12h.
double ModuleTest::difference(const std::function<double()>& f, const Tensor& x, const Floats& direction) {
  const Floats start = get(x);
  const auto at = [&](double steps) {
    Floats moved = start;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(steps * kStep * direction[i]);
    set(x, moved);
    return f();
  };
  const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
  set(x, start);
  return slope;
}

double ModuleTest::gradient_error(const std::function<double()>& f, const Tensor& x, const Floats& gradient,
                                  std::string* where) {
  const std::size_t n = gradient.size();
  REQUIRE(static_cast<std::int64_t>(n) == x.numel());
  const double norm = std::sqrt(squares(gradient)), allowed = kRelative * norm + kAbsolute;
  double worst = 0;
  const auto compare = [&](const Floats& direction, const std::string& place) {
    double said = 0;
    for (std::size_t i = 0; i < n; ++i) said += static_cast<double>(direction[i]) * gradient[i];
    const double slope = difference(f, x, direction), error = std::fabs(slope - said) / allowed;
    if (error <= worst) return;  // NaN is worst
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    if (where) *where = fmt::format("{}: backward says {}, differences {}; norm {}", place, said, slope, norm);
  };
  // A unit vector: every element moves, together as far as one element alone below.
  Floats direction = draw(static_cast<std::int64_t>(n));
  const float length = static_cast<float>(std::sqrt(squares(direction)));
  for (float& d : direction) d /= length;
  compare(direction, "along a random direction");
  const std::size_t count = std::min(n, kElements);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = k * n / count;
    Floats unit(n, 0);
    unit[i] = 1;
    compare(unit, fmt::format("element {} of {}", i, n));
  }
  return worst;
}

void ModuleTest::check_gradient(const std::string& what, const std::function<double()>& f, const Tensor& x,
                                const Floats& gradient) {
  std::string where;
  const double error = gradient_error(f, x, gradient, &where);
  INFO(what << ", " << where);
  CHECK(error <= 1);
  // A gradient of nothing but rounding would agree with anything.
  CHECK(std::sqrt(squares(gradient)) > 10 * kAbsolute);
}

void ModuleTest::check_parameters(const std::function<double()>& f) {
  REQUIRE(!store.all().empty());
  for (const auto& p : store.all()) {
    Floats gradient = get(p->gradient);
    for (float& g : gradient) g -= kBefore;
    check_gradient(p->name(), f, p->value, gradient);
  }
}

}  // namespace mbench::test

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::test;

TEST_CASE("the comparison with differences tells right from wrong") {
  ModuleTest t(ModuleTest::small("gpt"));
  const Tensor x = t.random({5, 7});
  const auto f = [&] {
    double sum = 0;
    for (const float v : t.get(x)) sum += std::sin(v);
    return sum;
  };
  Floats gradient = t.get(x);
  for (float& v : gradient) v = std::cos(v);
  CHECK(t.gradient_error(f, x, gradient) <= 1);
  Floats scaled = gradient, one_wrong = gradient, missing = gradient;
  for (float& v : scaled) v *= 1.01f;
  one_wrong[34] += 0.1f;
  missing[11] = std::nanf("");
  CHECK(t.gradient_error(f, x, scaled) > 1);
  CHECK(t.gradient_error(f, x, one_wrong) > 1);
  CHECK(t.gradient_error(f, x, missing) > 1);
}
