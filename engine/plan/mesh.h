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
#include <vector>

#include "engine/base/axis.h"

namespace mbench {

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
