#include "reports/records/outliers.h"

#include <algorithm>

namespace mbench::reports {

std::optional<std::vector<bool>> outliers_of(const std::vector<double>& samples) {
  if (samples.size() < 4) return std::nullopt;
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
  };
  const double first = quantile(0.25), third = quantile(0.75), reach = 1.5 * (third - first);
  std::vector<bool> flags;
  for (const double sample : samples) flags.push_back(sample < first - reach || sample > third + reach);
  return flags;
}

}  // namespace mbench::reports
