#include "reports/records/mean_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.h"

namespace mbench::reports {
namespace {

// The continued fraction of the regularised incomplete beta function I_x(a, b), by Lentz's method (1976).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double value = d;
  for (int m = 1; m <= 400; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::abs(c) < kTiny) c = kTiny;
      change = d * c;
      value *= change;
    }
    if (std::abs(change - 1) < 1e-14) break;
  }
  return value;
}

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_tails(double t, double freedom) {
  if (!std::isfinite(t)) return 0;
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_quantile(double tails, double freedom) {
  double low = 0, high = 4;
  while (student_tails(high, freedom) > tails && high < 1e9) low = high, high *= 2;
  for (int i = 0; i < 24; ++i) {  // seven digits, of which a large comparison needs thousands
    const double t = 0.5 * (low + high);
    (student_tails(t, freedom) > tails ? low : high) = t;
  }
  return high;
}

MeanOf mean_of(const std::vector<double>& samples, double tau) {
  check(!samples.empty(), "statistics", "mean of no samples");
  const double n = static_cast<double>(samples.size());
  MeanOf m;
  m.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double x : samples) squares += (x - m.mean) * (x - m.mean);
  m.variance = n > 1 ? squares / (n - 1) : 0;
  m.worth = n / tau;
  return m;
}

MeanRatio mean_ratio(const MeanOf& now, const MeanOf& baseline) {
  check(now.mean > 0 && baseline.mean > 0, "statistics", "the ratio of means {} and {}, need both above 0", now.mean,
        baseline.mean);
  MeanRatio r;
  r.now = now.mean, r.baseline = baseline.mean, r.ratio = now.mean / baseline.mean;
  const auto squared_error = [](const MeanOf& m) { return m.variance / (m.mean * m.mean) / m.worth; };
  const double a = squared_error(now), b = squared_error(baseline), error = std::sqrt(a + b);
  const double change = std::log(r.ratio);
  if (!(error > 0)) {
    r.interval = {r.ratio, r.ratio};
    r.p_value = change == 0 ? 1 : 0;
    r.deviations = change == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), change);
    return r;
  }
  const auto per_freedom = [](double e, const MeanOf& m) { return e * e / std::max(m.worth - 1, 0.5); };
  const double freedom = std::max(1.0, (a + b) * (a + b) / (per_freedom(a, now) + per_freedom(b, baseline)));
  const double reach = student_quantile(1 - RatioBootstrap::kConfidence, freedom) * error;
  r.deviations = change / error;
  r.interval = {std::exp(change - reach), std::exp(change + reach)};
  r.p_value = student_tails(r.deviations, freedom);
  return r;
}

}  // namespace mbench::reports
