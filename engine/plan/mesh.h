// The mesh of ranks: named axes over one world, in two factorisations. Dense weights and activations are laid out
// over tp x cp x dp x pp, experts over etp x ep x edp x pp: within a stage the same ranks, folded another way
// (Megatron-Core's parallel folding), so that ep 64 fits tp 2 x dp 32. Rank order is Megatron's: the first axis of
// a factorisation is innermost, its neighbours adjacent; pipeline stages are furthest apart.
//
// Where there are several copies of sharded state, ranks of data are two axes: dp (edp of experts) within a copy and, outside
// it, dp_replicate between copies, PyTorch's name for it. A copy is a run of neighbouring ranks of a stage, and so
// dp_replicate is the same axis in both factorisations.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// Of a factorisation innermost first.
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
  std::vector<Axis> list() const;  // innermost first

 private:
  constexpr explicit Axes(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(Axis a) { return 1u << static_cast<unsigned>(a); }
  unsigned bits_ = 0;
};
inline constexpr Axes kDenseAxes{Axis::tp, Axis::cp, Axis::dp, Axis::dp_replicate, Axis::pp};
inline constexpr Axes kExpertAxes{Axis::etp, Axis::ep, Axis::edp, Axis::dp_replicate, Axis::pp};
// Along which the samples of a step are split.
inline constexpr Axes kBatchAxes{Axis::dp, Axis::dp_replicate};
// Along which the tokens of a step are split, and no weight.
inline constexpr Axes kDataAxes{Axis::cp, Axis::dp, Axis::edp, Axis::dp_replicate};
// Of those, the ones over which model state may be sharded; along the other there are copies of it.
inline constexpr Axes kStateAxes{Axis::cp, Axis::dp, Axis::edp};
std::string str(Axes axes);  // "tp x pp"; "none"

class Mesh {
 public:
  Mesh() = default;
  Mesh(int tp, int cp, int dp, int pp, int etp = 1, int ep = 1);

  // edp is what the other axes leave; internal error where etp x ep does not divide tp x cp x dp.
  int size(Axis axis) const;
  int size(Axes axes) const;
  void resize(Axis axis, int size);  // not of edp
  int world() const { return size(kDenseAxes); }
  // Where `rank` stands on the axis.
  int coordinate(int rank, Axis axis) const;
  // The ranks that differ from `rank` in these axes alone, in order; it is one of them. The axes are of one
  // factorisation.
  std::vector<int> members(int rank, Axes axes) const;
  // Those axes of a set along which there is more than one rank.
  Axes real(Axes axes) const;

 private:
  std::array<int, kAxes> sizes_{1, 1, 1, 1, 1, 0, 1, 1};  // edp is none of its own
};

}  // namespace mbench
