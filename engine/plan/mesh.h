// The mesh of ranks: named axes, each of a size. Rank order is Megatron's: tensor-parallel neighbours are
// adjacent, then context, then data; pipeline stages are furthest apart. Expert parallelism divides the data
// axis and adds no ranks.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mbench {

enum class Axis : std::uint8_t { tp, cp, dp, pp };  // innermost first
inline constexpr int kAxes = 4;
std::string_view name_of(Axis axis);

struct Mesh {
  std::array<int, kAxes> sizes{1, 1, 1, 1};

  int size(Axis axis) const { return sizes[static_cast<int>(axis)]; }
  int world() const;
  // Where `rank` stands on the axis.
  int coordinate(int rank, Axis axis) const;
  // The ranks that differ from `rank` in these axes alone, in order; it is one of them.
  std::vector<int> members(int rank, const std::vector<Axis>& axes) const;
};

}  // namespace mbench
