// Where a tensor lies on the axes of the mesh, and the exchanges between two such placements.
//
// On each axis a value is replicated, sharded along a dim, or partial (the sum over ranks is the value): DTensor's placements. Its gradient
// has its own placements: a replicated value that sharded weights consume has a partial gradient. Flow is the pair. Going from one flow to
// another takes exchanges forward and their conjugates backward. There is none on an axis where both are the same, or that has one rank.
// Modules do not see which exchanges they are.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "engine/plan/mesh.h"

namespace mbench {

struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial } kind = Kind::replicate;
  int dim = 0;  // of the tensor, for shard
  bool operator==(const Placement&) const = default;
  bool sharded() const { return kind == Kind::shard; }
  bool sharded(int along) const { return kind == Kind::shard && dim == along; }
};

inline constexpr Placement replicate{Placement::Kind::replicate, 0};
inline constexpr Placement partial{Placement::Kind::partial, 0};
constexpr Placement shard(int dim) {
  return {Placement::Kind::shard, dim};
}

// A placement on every axis, replicated by default. Where two axes shard one dim, the outer one cuts first.
class Spread {
 public:
  constexpr Spread() = default;
  constexpr Spread(Axis axis, Placement place) { set(axis, place); }
  constexpr const Placement& operator[](Axis axis) const { return on_[static_cast<std::size_t>(axis)]; }
  constexpr void set(Axis axis, Placement place) { on_[static_cast<std::size_t>(axis)] = place; }
  constexpr Spread with(Axis axis, Placement place) const {
    Spread s = *this;
    s.set(axis, place);
    return s;
  }
  bool operator==(const Spread&) const = default;

 private:
  std::array<Placement, kAxes> on_{};
};

// The cuts of that dim only, where other axes replicate.
Spread cut_as(const Spread& spread, int dim);

struct Flow {
  Spread value, gradient;
  constexpr Flow with(Axis axis, Placement of_value, Placement of_gradient) const {
    return {value.with(axis, of_value), gradient.with(axis, of_gradient)};
  }
  bool operator==(const Flow&) const = default;
};

// `scatter` keeps this rank's part of what every rank has, as Megatron calls it: nothing is sent.
enum class Collective : std::uint8_t { none, all_reduce, all_gather, reduce_scatter, scatter, all_to_all };

struct Exchange {
  Axis axis;
  Collective what;
  int dim = 0;     // the dim that is gathered or scattered; for all_to_all the gathered one
  int to_dim = 0;  // for all_to_all, the dim that is scattered
  bool operator==(const Exchange&) const = default;
};
using Exchanges = std::vector<Exchange>;

// The exchange on one axis that brings a tensor from one placement to another; internal error where there is none.
Exchange resolve(Axis axis, const Placement& from, const Placement& to);
// The same on all axes, in an order that keeps "the outer axis cuts first".
Exchanges exchanges(const Spread& from, const Spread& to, const Mesh& mesh);

struct Transition {
  Exchanges forward, backward;
  static Transition between(const Flow& from, const Flow& to, const Mesh& mesh);
};

// The axes along which a weight's gradient is partial and must be summed. There the weight is replicated, and the tokens that it acts on,
// or its outputs, are split. One rule covers data parallelism (tokens split along dim 1, the batch) and context and sequence parallelism
// (dim 0, the sequence). It also covers experts, and keys and values with fewer heads than ranks (outputs split along dim 2).
Axes reduce_over(const Spread& weight, const Spread& tokens, const Spread& outputs);
inline Axes reduce_over(const Spread& weight, const Spread& tokens) {
  return reduce_over(weight, tokens, tokens);
}

// How the parts of a linear layer y = x W^T are placed; W is [out, in].
struct LinearPlan {
  Spread weight;
  Flow input;     // how the activations arrive
  Flow consumed;  // how the GEMM takes them
  Flow gemm;      // how the GEMM leaves its output
  Flow output;    // how the next module takes it
};

std::string str(const Placement& p);
std::string str(const Spread& spread,
                const Mesh& mesh);  // "tp shard(0), dp shard(1)" on axes of more than one rank
std::string_view name_of(Collective c);
std::string str(const Exchanges& list);  // "all-gather tp"; "none"

}  // namespace mbench
