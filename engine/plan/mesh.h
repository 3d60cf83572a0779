// The mesh of ranks: named axes over one world, in two factorisations. Dense weights and activations are laid out over tp x cp x dp x pp,
// experts over etp x ep x edp x pp. Within a stage these are the same ranks, folded another way (Megatron-Core's parallel folding), so ep
// 64 fits tp 2 x dp 32. Rank order is Megatron's: the first axis of a factorisation is innermost, with adjacent neighbours. Pipeline stages
// are furthest from each other.
//
// Where there are several copies of sharded state, data ranks form two axes. dp (edp for experts) is within a copy. dp_replicate, PyTorch's
// name, is between copies and outside dp. A copy is a run of neighbouring ranks of a stage, so dp_replicate is the same axis in both
// factorisations.
#pragma once
#include <array>
#include <vector>

#include "engine/base/axis.h"

namespace mbench {

class Mesh {
 public:
  Mesh() = default;
  Mesh(int tp, int cp, int dp, int pp, int etp = 1, int ep = 1);

  // edp follows from the other axes; internal error where etp x ep does not divide tp x cp x dp.
  int size(Axis axis) const;
  int size(Axes axes) const;
  void resize(Axis axis, int size);  // not for edp
  int world() const { return size(kDenseAxes); }
  // The position of `rank` on the axis.
  int coordinate(int rank, Axis axis) const;
  // The ranks that differ from `rank` in these axes only, in order; `rank` is one of them. The axes are of one factorisation.
  std::vector<int> members(int rank, Axes axes) const;
  // Those axes of a set that have more than one rank.
  Axes real(Axes axes) const;

 private:
  std::array<int, kAxes> sizes_{1, 1, 1, 1, 1, 0, 1, 1};  // edp is not stored: it is derived
};

}  // namespace mbench
