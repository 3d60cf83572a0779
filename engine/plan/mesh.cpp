#include "engine/plan/mesh.h"

#include <algorithm>

namespace mbench {

std::string_view name_of(Axis axis) {
  static constexpr std::string_view names[kAxes] = {"tp", "cp", "dp", "pp"};
  return names[static_cast<int>(axis)];
}

int Mesh::world() const {
  int n = 1;
  for (const int s : sizes) n *= s;
  return n;
}

int Mesh::coordinate(int rank, Axis axis) const {
  for (int i = 0; i < static_cast<int>(axis); ++i) rank /= sizes[i];
  return rank % size(axis);
}

std::vector<int> Mesh::members(int rank, const std::vector<Axis>& axes) const {
  std::vector<int> ranks;
  for (int r = 0; r < world(); ++r) {
    bool same = true;
    for (int i = 0; i < kAxes; ++i) {
      const Axis axis = static_cast<Axis>(i);
      const bool free = std::find(axes.begin(), axes.end(), axis) != axes.end();
      same = same && (free || coordinate(r, axis) == coordinate(rank, axis));
    }
    if (same) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace mbench
