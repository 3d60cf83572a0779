#include "reports/plots/sparkline.h"

#include <algorithm>

namespace mbench::reports {

std::string sparkline(const std::vector<double>& values) {
  static constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return "";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::string out;
  for (const double v : values) {
    const double height = *most > *least ? (v - *least) / (*most - *least) : 0;
    out += kHeights[std::min<int>(7, static_cast<int>(height * 8))];
  }
  return out;
}

}  // namespace mbench::reports
