// The median of some samples: of an even number, the mean of the middle two.
#pragma once
#include <algorithm>
#include <vector>

namespace mbench::health {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

}  // namespace mbench::health
