// The numbers behind a verdict, against closed forms and published tables.
#include "reports/records/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::reports;

TEST_CASE("median of odd and even numbers of samples") {
  CHECK(median_of_sorted({3}) == 3);
  CHECK(median_of_sorted({1, 2, 10}) == 2);
  CHECK(median_of_sorted({1, 2, 4, 10}) == 3);
}

TEST_CASE("the rank test gives the exact p-values of its tables") {
  RankTest test;
  // Complete separation: 2 / binomial(n + m, n).
  CHECK(test.p_value({1, 2, 3}, {4, 5, 6}) == Approx(2.0 / 20));
  CHECK(test.p_value({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}) == Approx(2.0 / 252));
  CHECK(test.p_value({6, 7, 8, 9, 10}, {1, 2, 3, 4, 5}) == Approx(2.0 / 252));
  CHECK(test.least_p_value(5, 5) == Approx(2.0 / 252));
  // U = 1 has one arrangement more: (1 + 1) of 20.
  CHECK(test.p_value({1, 2, 4}, {3, 5, 6}) == Approx(2 * 2.0 / 20));
  // Critical value of the table for n = m = 10 at 5 % two-sided: U = 23 is significant, U = 24 is not.
  std::vector<double> x, y;
  for (int i = 0; i < 10; ++i) y.push_back(10 * i);
  x = {-9, -8, -7, -6, -5, 15, 25, 35, 45, 55};  // U counts pairs with y below x: 0 * 5 + 2 + 3 + 4 + 5 + 6 = 20
  CHECK(test.p_value(x, y) < 0.05);
  x = {-9, -8, -7, -6, -5, 15, 35, 45, 55, 65};  // 2 + 4 + 5 + 6 + 7 = 24
  CHECK(test.p_value(x, y) > 0.05);
  x = {-9, -8, -7, -6, -5, 15, 25, 45, 55, 65};  // 2 + 3 + 5 + 6 + 7 = 23
  CHECK(test.p_value(x, y) < 0.05);
}

TEST_CASE("ties and equal samples") {
  RankTest test;
  CHECK(test.p_value({5, 5, 5, 5, 5}, {5, 5, 5, 5, 5}) == 1);
  CHECK(test.p_value({1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2}) < 0.01);
  CHECK(test.p_value({1, 2, 2, 3}, {1, 2, 2, 3}) == Approx(1));
}

TEST_CASE("the normal approximation continues the exact distribution") {
  RankTest test;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> x(20), y(20);
  for (double& v : x) v = normal(random) + 0.5;
  for (double& v : y) v = normal(random);
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  const double exact = test.p_value(x, y);  // 400 pairs: still exact
  x.push_back(1e9);
  y.push_back(1e8);
  const double approximate = test.p_value(x, y);
  CHECK(approximate == Approx(exact).epsilon(0.25).margin(0.02));
}

TEST_CASE("Holm's correction, by hand") {
  const auto p = holm({0.01, 0.04, 0.03, 0.005});
  CHECK(p[3] == Approx(0.02));
  CHECK(p[0] == Approx(0.03));
  CHECK(p[2] == Approx(0.06));
  CHECK(p[1] == Approx(0.06));  // never below the one before it
  CHECK(holm({}).empty());
  CHECK(holm({0.7, 0.9})[0] == 1);
}

TEST_CASE("the bootstrap interval is deterministic, holds the ratio and covers the truth") {
  RatioBootstrap bootstrap, another;
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise(100, 2);
  another.interval({1, 2, 3}, {1, 2, 3});  // other calls before leave no trace
  int covered = 0;
  constexpr int kRuns = 1000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> x(20 + run % 2), y(25);
    for (double& v : x) v = 1.1 * noise(random);
    for (double& v : y) v = noise(random);
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    const Interval i = bootstrap.interval(x, y);
    const double ratio = median_of_sorted(x) / median_of_sorted(y);
    REQUIRE(i.low <= ratio);
    REQUIRE(ratio <= i.high);
    covered += i.low <= 1.1 && 1.1 <= i.high;
    if (run < 10) {
      const Interval again = another.interval(x, y);
      CHECK(again.low == i.low);
      CHECK(again.high == i.high);
    }
  }
  CHECK(covered >= 975);  // of nominally 990
}

TEST_CASE("the bootstrap interval leans to neither side") {
  RatioBootstrap bootstrap;
  std::mt19937_64 random(13);
  std::normal_distribution<double> noise(100, 2);
  int below = 0, above = 0;  // medians of equal things whose interval leaves 1 out
  double low = 0, high = 0;
  for (int run = 0; run < 500; ++run) {
    std::vector<double> x(30), y(30);
    for (double& v : x) v = noise(random);
    for (double& v : y) v = noise(random);
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    const Interval i = bootstrap.interval(x, y);
    below += i.high < 1;
    above += i.low > 1;
    low += std::log(i.low);
    high += std::log(i.high);
  }
  CHECK(below <= 10);
  CHECK(above <= 10);
  CHECK(high / -low == Approx(1).epsilon(0.1));
}

TEST_CASE("the autocorrelation time: one for independent samples, more for those that remember") {
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal;
  const auto mean_time = [&](double memory, int n, int runs) {
    double sum = 0;
    for (int run = 0; run < runs; ++run) {
      std::vector<double> v;
      double x = normal(random);
      for (int i = 0; i < n; ++i) {
        v.push_back(100 + x);
        x = memory * x + std::sqrt(1 - memory * memory) * normal(random);
      }
      sum += autocorrelation_time(v);
    }
    return sum / runs;
  };
  CHECK(mean_time(0, 30, 500) < 1.5);
  CHECK(mean_time(0, 2000, 50) < 1.2);
  CHECK(mean_time(0.5, 5000, 50) == Approx(3).epsilon(0.15));  // (1 + 0.5) / (1 - 0.5)
  CHECK(mean_time(0.8, 5000, 50) == Approx(9).epsilon(0.2));
  CHECK(mean_time(-0.5, 1000, 50) == Approx(1).epsilon(0.05));  // never below one
  CHECK(autocorrelation_time({5, 5, 5, 5, 5, 5}) == 1);
  CHECK(autocorrelation_time({1, 2}) == 1);
  std::vector<double> slope;
  for (int i = 0; i < 30; ++i) slope.push_back(i);
  CHECK(autocorrelation_time(slope) > 8);
}

TEST_CASE("the shift is the median of all ratios") {
  CHECK(shift_ratio({2}, {1}) == 2);
  CHECK(shift_ratio({1, 2, 4}, {1}) == 2);
  CHECK(shift_ratio({1, 2}, {1, 2}) == Approx(1));
  CHECK(shift_ratio({1.1, 2.2, 3.3}, {1, 2, 3}) == Approx(1.1));
}

TEST_CASE("dependence widens the interval around its ratio and weakens the rank test") {
  RatioBootstrap bootstrap;
  RankTest ranks;
  std::vector<double> x, y;
  for (int i = 0; i < 31; ++i) x.push_back(102 + 0.1 * i), y.push_back(100 + 0.1 * i);
  const Interval plain = bootstrap.interval(x, y), wide = bootstrap.interval(x, y, 2);
  const double ratio = median_of_sorted(x) / median_of_sorted(y);
  CHECK(std::log(wide.high / ratio) == Approx(2 * std::log(plain.high / ratio)));
  CHECK(std::log(wide.low / ratio) == Approx(2 * std::log(plain.low / ratio)));
  CHECK(ranks.p_value(x, y, 2) > 10 * ranks.p_value(x, y));
}

TEST_CASE("many samples: the middle of a resample has the distribution that drawing all of them gives") {
  // Of the ranks themselves the interval's ends are quantiles of that distribution: near 1/2 by 2.576 / (2 sqrt(n)) on either side, which is
  // known for any number, and goes on from the numbers whose resamples are drawn.
  const auto interval_of = [](std::size_t n) {
    std::vector<double> ranks(n);
    for (std::size_t i = 0; i < n; ++i) ranks[i] = 1 + static_cast<double>(i) / static_cast<double>(n);
    return RatioBootstrap().interval(ranks, {1, 1, 1, 1, 1});
  };
  for (const std::size_t n : {std::size_t{20000}, std::size_t{32769}, std::size_t{50000}, std::size_t{4'500'000}}) {
    INFO(n);
    const Interval i = interval_of(n);
    const double half = 2.576 / (2 * std::sqrt(static_cast<double>(n)));
    CHECK(i.low - 1.5 == Approx(-half).epsilon(0.15));
    CHECK(i.high - 1.5 == Approx(half).epsilon(0.15));
  }
}

TEST_CASE("many samples: blocks of neighbours give the autocorrelation time of all") {
  std::mt19937_64 random(23);
  std::normal_distribution<double> normal;
  for (const double memory : {0.0, 0.5, 0.9, 0.999}) {
    INFO(memory);
    std::vector<double> v;
    double x = normal(random);
    for (int i = 0; i < 300'000; ++i) {
      v.push_back(100 + x);
      x = memory * x + std::sqrt(1 - memory * memory) * normal(random);
    }
    const double expected = (1 + memory) / (1 - memory);
    CHECK(autocorrelation_time(v) == Approx(expected).epsilon(memory > 0.99 ? 0.35 : 0.1));
  }
  CHECK(autocorrelation_time(std::vector<double>(100'000, 5)) == 1);
}

TEST_CASE("many samples: the median of all ratios is that of making each, bit for bit") {
  std::mt19937_64 random(29);
  std::lognormal_distribution<double> noise(0, 0.05);
  const auto drawn = [&](std::size_t n, double scale, bool ties) {
    std::vector<double> v(n);
    for (double& x : v) x = ties ? scale * std::round(noise(random) * 50) : scale * noise(random);
    std::sort(v.begin(), v.end());
    return v;
  };
  for (const bool ties : {false, true})
    for (const std::size_t n : {std::size_t{2999}, std::size_t{3000}}) {
      const std::vector<double> x = drawn(n, 107, ties), y = drawn(2001, 100, ties);
      std::vector<double> ratios;
      for (const double a : x)
        for (const double b : y) ratios.push_back(a / b);
      CHECK(shift_ratio(x, y) == median_of(ratios));
    }
}
