// Tables of a machine file: their axes, and what lies between two of their values.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench::sim {

// bad_input at `where` unless it is an array of at least one number above 0, and `ascending` where asked.
std::vector<double> read_positive_numbers(const nlohmann::json& value, const std::string& where, bool ascending);

// The number below x and how far x lies towards the next, from 0 to 1, on a logarithmic axis; the ends stay.
struct Place {
  std::size_t low = 0;
  double share = 0;
};
inline Place place_of(const std::vector<double>& ascending, double x) {
  if (ascending.size() < 2 || x <= ascending.front()) return {};
  if (x >= ascending.back()) return {ascending.size() - 2, 1};
  const auto above =
      static_cast<std::size_t>(std::upper_bound(ascending.begin(), ascending.end(), x) - ascending.begin());
  return {above - 1, std::log(x / ascending[above - 1]) / std::log(ascending[above] / ascending[above - 1])};
}

// What a table has there, a straight line between two of its values.
inline double between(const std::vector<double>& values, const Place& at) {
  return at.share == 0 ? values[at.low] : values[at.low] + at.share * (values[at.low + 1] - values[at.low]);
}

}  // namespace mbench::sim
