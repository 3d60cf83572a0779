// NF4 against its definition and against bitsandbytes (scripts/fixtures/nf4_cases.py).
#include "engine/ops/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/ops/run.h"
#include "test/engine/ops/fixture.h"

using namespace mbench;

namespace {

// The quantile of the standard normal distribution, by halving.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return low;
}

Tensor empty(Device& device, std::int64_t n, DType type) {
  return device.empty({n}, type, Category::other, "test");
}

template <class T>
std::vector<T> values(const Tensor& t) {
  return {t.as<T>(), t.as<T>() + t.numel()};
}

}  // namespace

// The paper's appendix E: quantiles of [1 - 0.9677083, 0.9677083], 8 of them above zero and 7 below, and zero, over the largest.
TEST_CASE("NF4's values are the normal distribution's quantiles") {
  constexpr double kOuter = 0.9677083;
  std::vector<double> want = {0};
  for (int i = 0; i < 8; ++i) want.push_back(normal_quantile(kOuter + (0.5 - kOuter) * i / 8));
  for (int i = 0; i < 7; ++i) want.push_back(-normal_quantile(kOuter + (0.5 - kOuter) * i / 7));
  std::sort(want.begin(), want.end());
  REQUIRE(want.size() == 16);
  for (int code = 0; code < 16; ++code) {
    CAPTURE(code);
    CHECK(static_cast<double>(ops::nf4_value(code)) ==
          Approx(want[static_cast<std::size_t>(code)] / want.back()).epsilon(1e-5));
    CHECK(ops::nf4_code(ops::kNf4.values, ops::nf4_value(code)) == code);
  }
}

TEST_CASE("weights in 4 bits and scales in 8 are those of bitsandbytes") {
  cpu::CpuDevice device;
  fixture::Bench bench;
  int seen = 0;
  for (const fixture::Json& c : fixture::cases("nf4")) {
    const auto want = c.at("y").at("data").get<std::vector<float>>();
    const auto n = static_cast<std::int64_t>(want.size());
    if (c.at("name") == "weights") {
      ++seen;
      const Tensor y = empty(device, n, DType::f32), codes = empty(device, n / 2, DType::u8),
                   scales = empty(device, n / 64, DType::f32);
      run(device, ops::DequantiseNf4{bench.u8(c.at("codes")), bench.f32(c.at("scales")), y});
      CHECK(values<float>(y) == want);
      // Of a block that has the value -1 or 1 the codes come back.
      run(device, ops::QuantiseNf4{y.part(0, {64}), codes.part(0, {32}), scales.part(0, {1})});
      const auto first = c.at("codes").at("data").get<std::vector<std::uint8_t>>();
      CHECK(std::equal(first.begin(), first.begin() + 32, values<std::uint8_t>(codes).begin()));
      CHECK(values<float>(scales)[0] == c.at("scales").at("data")[0].get<float>());
      continue;
    }
    REQUIRE(c.at("name") == "scales");
    ++seen;
    // bitsandbytes quantises what is already less the mean.
    const Tensor back = empty(device, n, DType::f32), zero = empty(device, 1, DType::f32);
    zero.as<float>()[0] = 0;
    run(device, ops::DequantiseScales{bench.u8(c.at("codes")), bench.f32(c.at("most")), zero, back});
    const auto values_back = values<float>(back);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(values_back[i] == Approx(want[i]).epsilon(1e-6));
    const auto codes = c.at("codes").at("data").get<std::vector<int>>();
    const auto x = c.at("x").at("data").get<std::vector<float>>(),
               most = c.at("most").at("data").get<std::vector<float>>();
    // The library looks a value up in a coarser map first, and takes a neighbour here and there.
    int neighbours = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(i);
      const int code = ops::nearest_code(ops::kSignedMap.values, x[i] / most[i / 256]);
      CHECK(std::abs(code - codes[i]) <= 1);
      neighbours += code != codes[i];
    }
    CHECK(neighbours <= 3);
  }
  CHECK(seen == 2);
}
