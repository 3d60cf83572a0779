// Values of tensors as doubles, and how far two of them may differ.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"

namespace mbench::test {

using Values = std::vector<double>;

inline constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};

// Relative rounding error of one stored value.
constexpr double epsilon(DType t) {
  return t == DType::f32 ? 1e-6 : t == DType::f16 ? 1.0 / 1024 : 1.0 / 128;
}

// Uniform draws from [low, high).
Values uniform(std::int64_t n, double low, double high, unsigned seed);

// |got - want| <= absolute + relative * |want|. Integers and masks must be equal.
struct Tolerance {
  double absolute = 1e-6;
  double f32 = 1e-6;     // relative, of a result in f32
  double roundings = 1;  // relative, of a 16-bit result: in roundings of its type
  double relative(DType t) const { return t == DType::f32 ? f32 : roundings * epsilon(t); }
};
inline constexpr Tolerance kExact{0, 0, 0};

// Empty where |got - want| <= absolute + relative * |want| everywhere, else what differs first. NaN matches NaN, an
// infinity itself.
std::string difference(const Values& got, const Values& want, double relative, double absolute);

double dot(const Values& a, const Values& b);

// d f / d x by central differences in double.
Values differences(const std::function<double(const Values&)>& f, Values x, double step = 1e-5);

}  // namespace mbench::test
