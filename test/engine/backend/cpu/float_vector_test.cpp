#include "engine/backend/cpu/float_vector.h"

#include <cmath>
#include <limits>

#include "test/catch.h"

namespace mbench {
namespace {

using cpu::FloatVector, cpu::kVector;

// The largest relative error of a lane, over x from `first` to `last`.
template <class F, class Exact>
double error_of(float first, float last, F f, Exact exact) {
  constexpr std::int64_t kSteps = 200000;
  double worst = 0;
  for (std::int64_t i = 0; i < kSteps; i += kVector) {
    FloatVector x;
    for (std::int64_t l = 0; l < kVector; ++l)
      x[l] = first + (last - first) * static_cast<float>(i + l) / static_cast<float>(kSteps);
    const FloatVector y = f(x);
    for (std::int64_t l = 0; l < kVector; ++l) {
      const double right = exact(static_cast<double>(x[l]));
      worst = std::max(worst, std::fabs(static_cast<double>(y[l]) / right - 1));
    }
  }
  return worst;
}

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Functions that are always inlined have no address.
constexpr auto kExp2 = [](const FloatVector& x) { return cpu::exp2_of(x); };
constexpr auto kExp = [](const FloatVector& x) { return cpu::exp_of(x); };
constexpr auto kSigmoid = [](const FloatVector& x) { return cpu::sigmoid_of(x); };
constexpr auto kSoftplus = [](const FloatVector& x) { return cpu::softplus_of(x).value; };
constexpr auto kSlope = [](const FloatVector& x) { return cpu::softplus_of(x).slope; };

TEST_CASE("vectors of floats: exponentials and what is made of them have the errors that they state",
          "[float_vector]") {
  const auto exp2_exact = [](double x) { return std::exp2(x); };
  CHECK(error_of(-125.9f, 126.9f, kExp2, exp2_exact) < 1.5e-7);
  CHECK(error_of(-1, 1, kExp2, exp2_exact) < 1.5e-7);
  CHECK(error_of(-86, 87, kExp, [](double x) { return std::exp(x); }) < 1.5e-7);
  CHECK(error_of(-85, 88, kSigmoid, sigmoid) < 3e-7);
  for (const float range : {0.5f, 20.0f, 85.0f}) {
    CHECK(error_of(-range, range, kSoftplus, softplus) < 3e-7);
    CHECK(error_of(-range, range, kSlope, sigmoid) < 3e-7);
  }
}

// What a function makes of one number. Not inlined: GCC 12 crashes where it vectorises the cases below.
template <class F>
[[gnu::noinline]] float value_of(F f, float x) {
  return f(cpu::all(x))[kVector - 1];
}

TEST_CASE("vectors of floats: exponentials and what is made of them at their limits", "[float_vector]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {-126.5f, -1e4f, -infinity}) CHECK(value_of(kExp2, x) == std::exp2(-126.0f));
  for (const float x : {-126.0f, 0.0f, 1.0f, 127.0f}) CHECK(value_of(kExp2, x) == std::exp2(x));
  for (const float x : {100.0f, 1e4f, infinity}) {
    CHECK(value_of(kSoftplus, x) == x);
    CHECK(value_of(kSlope, x) == 1);
    CHECK(value_of(kSigmoid, x) == 1);
    CHECK(value_of(kSoftplus, -x) == 0);
    CHECK(value_of(kSlope, -x) == 0);
    CHECK(value_of(kSigmoid, -x) < 1e-38f);
  }
  for (const float nan : {std::nanf(""), std::nanf("0x123"), -std::nanf("")}) {
    CHECK(std::isnan(value_of(kExp2, nan)));
    CHECK(std::isnan(value_of(kExp, nan)));
    CHECK(std::isnan(value_of(kSigmoid, nan)));
    CHECK(std::isnan(value_of(kSoftplus, nan)));
    CHECK(std::isnan(value_of(kSlope, nan)));
  }
}

TEST_CASE("vectors of floats: sums of several vectors at once are in their order", "[float_vector]") {
  FloatVector rows[kVector];
  for (std::int64_t r = 0; r < kVector; ++r)
    for (std::int64_t l = 0; l < kVector; ++l) rows[r][l] = static_cast<float>(100 * r * r + l);
  const FloatVector sums = cpu::sums_of(rows);
  for (std::int64_t r = 0; r < kVector; ++r)
    CHECK(sums[r] == static_cast<float>(100 * r * r * kVector + kVector * (kVector - 1) / 2));
}

}  // namespace
}  // namespace mbench
