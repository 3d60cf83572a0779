// The axes of the mesh of ranks (engine/plan/mesh.h), and sets of them.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// The innermost axis of a factorisation first.
enum class Axis : std::uint8_t { tp, cp, dp, etp, ep, edp, dp_replicate, pp };
inline constexpr int kAxes = 8;
std::string_view name_of(Axis axis);

// A set of axes.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis a : axes) bits_ |= bit(a);
  }
  constexpr bool has(Axis a) const { return (bits_ & bit(a)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(Axis a) { bits_ |= bit(a); }
  constexpr Axes operator&(Axes other) const { return Axes(bits_ & other.bits_); }
  constexpr Axes operator|(Axes other) const { return Axes(bits_ | other.bits_); }
  constexpr Axes operator-(Axes other) const { return Axes(bits_ & ~other.bits_); }
  constexpr bool operator==(const Axes&) const = default;
  constexpr bool operator<(Axes other) const { return bits_ < other.bits_; }
  // Whether it has an axis, and none outside `others`.
  constexpr bool within(Axes others) const { return !empty() && (*this - others).empty(); }
  std::vector<Axis> list() const;  // innermost first

 private:
  constexpr explicit Axes(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(Axis a) { return 1u << static_cast<unsigned>(a); }
  unsigned bits_ = 0;
};
inline constexpr Axes kDenseAxes{Axis::tp, Axis::cp, Axis::dp, Axis::dp_replicate, Axis::pp};
inline constexpr Axes kExpertAxes{Axis::etp, Axis::ep, Axis::edp, Axis::dp_replicate, Axis::pp};
// The axes along which the samples of a step are split.
inline constexpr Axes kBatchAxes{Axis::dp, Axis::dp_replicate};
// The axes along which the tokens of a step are split, and no weight.
inline constexpr Axes kDataAxes{Axis::cp, Axis::dp, Axis::edp, Axis::dp_replicate};
// Of those, the ones over which model state may be sharded. Along the other there are copies of the state.
inline constexpr Axes kStateAxes{Axis::cp, Axis::dp, Axis::edp};
// The axes along which a layer's weights are cut.
inline constexpr Axes kTensorAxes{Axis::tp, Axis::etp};
std::string str(Axes axes);  // "tp x pp"; "none"

}  // namespace mbench
