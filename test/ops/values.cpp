#include "test/ops/values.h"

#include <fmt/format.h>

#include <numeric>
#include <random>

namespace mbench::test {

Values uniform(std::int64_t n, double low, double high, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  Values v(static_cast<std::size_t>(n));
  for (double& x : v) x = draw(engine);
  return v;
}

std::string difference(const Values& got, const Values& want, double relative, double absolute) {
  if (got.size() != want.size()) return fmt::format("got {} values, want {}", got.size(), want.size());
  std::size_t bad = 0, first = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!same && !(std::fabs(got[i] - want[i]) <= absolute + relative * std::fabs(want[i])) && bad++ == 0) first = i;
  }
  if (bad == 0) return "";
  return fmt::format("{} of {} differ, the first at {}: got {}, want {}", bad, got.size(), first, got[first],
                     want[first]);
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Values differences(const std::function<double(const Values&)>& f, Values x, double step) {
  Values d(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double was = x[i];
    x[i] = was + step;
    const double up = f(x);
    x[i] = was - step;
    d[i] = (up - f(x)) / (2 * step);
    x[i] = was;
  }
  return d;
}

}  // namespace mbench::test
