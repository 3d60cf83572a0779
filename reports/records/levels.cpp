#include "reports/records/levels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"

namespace mbench::reports {
namespace {

// A line may begin at any of so many values; of longer series it begins with the first.
constexpr std::size_t kMostBegins = 1000;

struct Fitted {
  double level = 0, slope = 0, left = 0;
};

// Least squares of level + slope * max(0, i - since).
Fitted fit_line(const std::vector<double>& y, std::size_t since) {
  const double n = static_cast<double>(y.size());
  const auto at = [&](std::size_t i) { return i > since ? static_cast<double>(i - since) : 0; };
  double x_mean = 0, y_mean = 0;
  for (std::size_t i = 0; i < y.size(); ++i) x_mean += at(i) / n, y_mean += y[i] / n;
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double x = at(i) - x_mean, v = y[i] - y_mean;
    xx += x * x, xy += x * v, yy += v * v;
  }
  Fitted f;
  f.slope = xx > 0 ? xy / xx : 0;
  f.level = y_mean - f.slope * x_mean;
  f.left = std::max(0.0, yy - f.slope * xy);
  return f;
}

}  // namespace

double information(double squares_left, std::size_t n, double parameters, double scale) {
  const double count = static_cast<double>(n), rounding = 1e-9 * scale;
  return count * std::log(squares_left / count + rounding * rounding + 1e-300) + parameters * std::log(count);
}

Levels levels_of(const std::vector<double>& y, std::size_t least, bool may_begin_later) {
  check(y.size() >= 4 && least >= 1, "levels", "{} values, need at least 4", y.size());
  const std::size_t count = y.size();
  const double n = static_cast<double>(count);
  double scale = 0;
  for (const double v : y) scale = std::max(scale, std::abs(v));
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double all = 0;
  for (const double v : y) all += (v - mean) * (v - mean);
  Levels found;
  found.constant_bic = information(all, count, 1, scale);

  double sum = 0, best = -1;
  for (std::size_t k = 1; k < count; ++k) {
    sum += y[k - 1] - mean;
    if (k < least || count - k < least) continue;
    const double before = static_cast<double>(k), between = sum * sum * n / (before * (n - before));
    if (between <= best) continue;
    best = between;
    found.at = k;
    found.before = mean + sum / before;
    found.after = mean - sum / (n - before);
  }
  found.step_bic = best < 0 ? found.constant_bic : information(std::max(0.0, all - best), count, 3, scale);

  Fitted line = fit_line(y, 0);
  found.line_bic = information(line.left, count, 2, scale);
  const std::size_t begins =
      may_begin_later && count <= kMostBegins ? count - 3 : 1;  // a line is of three values at least
  for (std::size_t since = 1; since < begins; ++since) {
    const Fitted later = fit_line(y, since);
    const double bic = information(later.left, count, 3, scale);
    if (bic < found.line_bic) found.line_bic = bic, found.since = since, line = later;
  }
  found.start = line.level;
  found.slope = line.slope;
  found.explained = all > 0 ? 1 - line.left / all : 0;
  return found;
}

}  // namespace mbench::reports
