// Tables of a machine file: their axes, and interpolation between their values.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench::sim {

// Throws bad_input at `where` unless it is an array of at least one number above 0, in ascending order where `ascending` is set.
std::vector<double> read_positive_numbers(const nlohmann::json& value, const std::string& where, bool ascending);

// The index of the value below x, and how far x lies towards the next, from 0 to 1, on a logarithmic axis. Beyond the ends it is the
// end.
struct AxisPoint {
  std::size_t low = 0;
  double share = 0;
};
inline AxisPoint place_of(const std::vector<double>& ascending, double x) {
  if (ascending.size() < 2 || x <= ascending.front()) return {};
  if (x >= ascending.back()) return {ascending.size() - 2, 1};
  const auto above =
      static_cast<std::size_t>(std::upper_bound(ascending.begin(), ascending.end(), x) - ascending.begin());
  return {above - 1, std::log(x / ascending[above - 1]) / std::log(ascending[above] / ascending[above - 1])};
}

// The table's value there, by linear interpolation.
inline double between(const std::vector<double>& values, const AxisPoint& at) {
  return at.share == 0 ? values[at.low] : values[at.low] + at.share * (values[at.low + 1] - values[at.low]);
}

}  // namespace mbench::sim
