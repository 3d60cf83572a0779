// Where a tensor lives on the tensor-parallel axis, and the communication between two such places.
//
// A value is replicated, sharded along a dim, or partial (the sum over ranks is the value). Its gradient has
// a place of its own: a replicated value that sharded weights consume has a partial gradient. Flow is the
// pair. Going from one flow to another resolves to one collective forward and its conjugate backward; where
// both are the same, or the axis has size one, to none. Modules do not know which.
#pragma once
#include <string>

namespace mbench {

struct Placement {
  enum class Kind { replicate, shard, partial } kind = Kind::replicate;
  int dim = 0;  // of the tensor, for shard
  bool operator==(const Placement&) const = default;
  bool sharded(int along) const { return kind == Kind::shard && dim == along; }
};

inline constexpr Placement replicate{Placement::Kind::replicate, 0};
inline constexpr Placement partial{Placement::Kind::partial, 0};
constexpr Placement shard(int dim) {
  return {Placement::Kind::shard, dim};
}

struct Flow {
  Placement value, gradient;
  bool operator==(const Flow&) const = default;
};

enum class Collective { none, all_reduce, all_gather, reduce_scatter, split };

// The collective that brings a tensor from one place to another; internal error where there is none.
Collective resolve(const Placement& from, const Placement& to);

struct Transition {
  Collective forward = Collective::none, backward = Collective::none;
  static Transition between(const Flow& from, const Flow& to, int axis_size);
};

// How the parts of a linear layer y = x W^T lie; W is [out, in].
struct LinearPlan {
  Placement weight;
  Flow input;     // what the activations have when they arrive
  Flow consumed;  // what the product wants of them
  Flow product;   // what it makes
  Flow output;    // what the next module wants
};

std::string str(const Placement& p);
std::string_view name_of(Collective c);

}  // namespace mbench
