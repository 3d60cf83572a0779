#include "engine/base/expected_largest.h"

#include <cmath>

namespace mbench {

double expected_largest(std::int64_t n) {
  const double count = static_cast<double>(n), above = 0.625 / (count + 0.25);  // the share of deviates that are larger
  if (n <= 1) return 0;
  double low = 0, high = 10;  // erfc leaves 1e-23 beyond 10
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > above ? low : high) = middle;
  }
  return low;
}

}  // namespace mbench
