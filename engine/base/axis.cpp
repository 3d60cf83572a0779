#include "engine/base/axis.h"

namespace mbench {

std::string_view name_of(Axis axis) {
  static constexpr std::string_view names[kAxes] = {"tp", "cp", "dp", "etp", "ep", "edp", "dp_replicate", "pp"};
  return names[static_cast<int>(axis)];
}

std::vector<Axis> Axes::list() const {
  std::vector<Axis> all;
  for (int i = 0; i < kAxes; ++i)
    if (has(static_cast<Axis>(i))) all.push_back(static_cast<Axis>(i));
  return all;
}

std::string str(Axes axes) {
  std::string text;
  for (const Axis a : axes.list()) text += (text.empty() ? "" : " x ") + std::string(name_of(a));
  return text.empty() ? "none" : text;
}

}  // namespace mbench
