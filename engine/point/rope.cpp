#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/point/model_spec.h"

namespace mbench {

std::int64_t RopeSpec::turned(std::int64_t head_dim) const {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(head_dim) * fraction / 2 + 1e-9)) * 2;
}

std::vector<float> RopeSpec::frequencies(std::int64_t head_dim) const {
  const std::int64_t n = turned(head_dim);
  std::vector<float> all;
  for (std::int64_t i = 0; i < n; i += 2) {
    double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(n));
    if (factor != 1) {
      // How often the pair turns within the original length, and where that lies between the two bounds.
      const double turns = static_cast<double>(original_positions) * frequency / (2 * std::numbers::pi);
      const double kept = std::clamp(
          (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor), 0.0, 1.0);
      frequency = frequency * kept + frequency / factor * (1 - kept);
    }
    all.push_back(static_cast<float>(frequency));
  }
  return all;
}

}  // namespace mbench
