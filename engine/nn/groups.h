// The groups of ranks that a model talks in: one for each set of axes of its mesh, made once, in the same order on
// every rank.
#pragma once
#include <map>
#include <memory>

#include "engine/comm/group.h"
#include "engine/plan/mesh.h"

namespace mbench {

class Groups {
 public:
  // Collective over the world: makes the group of all ranks, then one for each set that training uses; `experts`:
  // whether it has experts, whose axes are another factorisation. `words`: the stages that hold a table of words.
  Groups(Device& device, World& world, const Mesh& mesh, bool experts, const std::vector<int>& words);
  // The first and the last stage hold one.
  Groups(Device& device, World& world, const Mesh& mesh, bool experts = false)
      : Groups(device, world, mesh, experts, {0, mesh.size(Axis::pp) - 1}) {}

  // The ranks that differ from this one in these axes alone. Axes of one rank make no difference: of none but such, it
  // is a group of one. Internal error for a set that was not made.
  Group& over(Axes axes) const;
  Group& all() const { return *all_; }  // of the job, whatever the axes
  // Megatron's embedding group: the stages that share a table of words, the first and the last, or where multi-token prediction is.
  // Null elsewhere, and where there is one such stage.
  Group* embedding() const { return embedding_.get(); }

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }  // of the world
  int coordinate(Axis axis) const { return mesh_.coordinate(rank_, axis); }

 private:
  Mesh mesh_;
  int rank_;
  std::unique_ptr<Group> all_, embedding_;
  std::map<Axes, std::unique_ptr<Group>> by_axes_;  // axes of more than one rank alone
};

}  // namespace mbench
