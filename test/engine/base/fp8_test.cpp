// FP8 storage against the formats written out in double, and against what is known of them.
#include "engine/base/fp8.h"

#include <cmath>
#include <limits>
#include <vector>

#include "test/catch.h"

using namespace mbench;

namespace {

// The value of a code, by the definition: sign, exponent, mantissa.
double value_of(int code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, mantissa = code & ((1 << mantissa_bits) - 1),
            exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double size = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                    : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return (code & 0x80) != 0 ? -size : size;
}

template <class T>
void check_format(int exponent_bits, int mantissa_bits, int largest) {
  std::vector<double> values;  // of the finite codes without a sign, ascending
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    const auto bits = static_cast<std::uint8_t>(code);
    const float got = fp8_to_float<T>(bits);
    if ((code & 0x7F) > largest) {
      CHECK(!std::isfinite(got));
      continue;
    }
    const double want = value_of(code, exponent_bits, mantissa_bits);
    CHECK(got == want);
    CHECK(std::signbit(got) == (code >= 128));
    CHECK(fp8_from_float<T>(got) == bits);  // there and back
    if (code < 128) values.push_back(want);
  }
  REQUIRE(values.size() == static_cast<std::size_t>(largest) + 1);
  // To the nearest; in the middle to the even code; beyond the largest to that.
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const auto low = static_cast<float>(values[i]), high = static_cast<float>(values[i + 1]),
               middle = static_cast<float>((values[i] + values[i + 1]) / 2);
    CAPTURE(i, middle);
    CHECK(fp8_from_float<T>(middle) == (i % 2 == 0 ? i : i + 1));
    CHECK(fp8_from_float<T>(std::nextafter(middle, low)) == i);
    CHECK(fp8_from_float<T>(std::nextafter(middle, high)) == i + 1);
    CHECK(fp8_from_float<T>(-std::nextafter(middle, low)) == (i | 0x80));
  }
  for (const float beyond :
       {static_cast<float>(values.back()) * 1.01f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK(fp8_from_float<T>(beyond) == largest);
    CHECK(fp8_from_float<T>(-beyond) == (largest | 0x80));
  }
  CHECK(std::isnan(fp8_to_float<T>(fp8_from_float<T>(std::nanf("")))));
}

}  // namespace

TEST_CASE("e4m3 has its 254 values and a NaN, and takes what is nearest") {
  check_format<e4m3>(4, 3, 0x7E);
  CHECK(largest_of(DType::e4m3) == 448);
  CHECK(std::isnan(fp8_to_float<e4m3>(0x7F)));
  CHECK(fp8_to_float<e4m3>(1) == std::ldexp(1.0f, -9));
}

TEST_CASE("e5m2 has its 248 values, infinities and NaNs, and takes what is nearest") {
  check_format<e5m2>(5, 2, 0x7B);
  CHECK(largest_of(DType::e5m2) == 57344);
  CHECK(std::isinf(fp8_to_float<e5m2>(0x7C)));
  CHECK(std::isnan(fp8_to_float<e5m2>(0x7D)));
  CHECK(fp8_to_float<e5m2>(1) == std::ldexp(1.0f, -16));
}

TEST_CASE("E8M0 is the smallest power of two that is not below a value") {
  for (int code = 0; code < 255; ++code) {
    const double value = std::exp2(code - 127);
    CHECK(static_cast<double>(e8m0_to_float(static_cast<std::uint8_t>(code))) == value);
    CHECK(e8m0_from_float(static_cast<float>(value)) == code);
    if (code < 254) CHECK(e8m0_from_float(std::nextafter(static_cast<float>(value), 1e38f)) == code + 1);
  }
  CHECK(e8m0_from_float(0) == 0);
  CHECK(e8m0_from_float(std::numeric_limits<float>::infinity()) == 254);
  CHECK(e8m0_from_float(std::nanf("")) == 255);
  CHECK(std::isnan(e8m0_to_float(255)));
}

TEST_CASE("e2m1 has fifteen values, rounds to the even code, and saturates") {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    CHECK(e2m1_to_float(static_cast<std::uint8_t>(code)) == values[code]);
    CHECK(e2m1_to_float(static_cast<std::uint8_t>(code + 8)) == -values[code]);
    CHECK(e2m1_from_float(values[code]) == code);
    CHECK(e2m1_from_float(-values[code]) == code + 8);
    if (code == 7) continue;
    const float middle = (values[code] + values[code + 1]) / 2;
    CHECK(e2m1_from_float(middle) == (code % 2 == 0 ? code : code + 1));
    CHECK(e2m1_from_float(std::nextafter(middle, 0.0f)) == code);
    CHECK(e2m1_from_float(std::nextafter(middle, 10.0f)) == code + 1);
  }
  CHECK(e2m1_from_float(1e30f) == 7);
  CHECK(e2m1_from_float(-1e30f) == 15);
}

// Of 65,536 evenly spread draws as many round up as leave the mean.
TEST_CASE("e2m1 that rounds at random keeps the mean") {
  for (const float x : {0.0f, 0.1f, 0.5f, 0.7f, 1.2f, 1.9f, 2.25f, 3.9f, 5.0f, 5.99f, 6.0f, -0.3f, -4.5f}) {
    CAPTURE(x);
    double sum = 0;
    for (std::uint32_t i = 0; i < 65536; ++i)
      sum += static_cast<double>(e2m1_to_float(e2m1_from_float(x, i << 16 | 0x8000)));
    CHECK(sum / 65536 == Approx(static_cast<double>(x)).margin(1e-4));
  }
}
