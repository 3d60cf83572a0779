// The groups of ranks that a model communicates in: one for each set of axes of its mesh. They are made once, in the
// same order on every rank.
#pragma once
#include <map>
#include <memory>

#include "engine/comm/group.h"
#include "engine/plan/mesh.h"

namespace mbench::nn {

class Groups {
 public:
  // Collective over the world: makes the group of all ranks, then one for each set of axes that training uses.
  // `experts`: whether the model has experts, whose axes are another factorisation. `words`: the stages that hold a
  // table of words.
  Groups(Device& device, comm::World& world, const Mesh& mesh, bool experts, const std::vector<int>& words);
  // The first and the last stage hold a table of words.
  Groups(Device& device, comm::World& world, const Mesh& mesh, bool experts = false)
      : Groups(device, world, mesh, experts, {0, mesh.size(Axis::pp) - 1}) {}

  // The ranks that differ from this one only in these axes. Axes of one rank make no difference: with only such axes,
  // it is a group of one. Internal error for a set that was not made.
  comm::Group& over(Axes axes) const;
  comm::Group& all() const { return *all_; }  // of the job, whatever the axes
  // Megatron's embedding group: the stages that share a table of words (Plan::stages_with_words). Null elsewhere, and
  // where there is one such stage.
  comm::Group* embedding() const { return embedding_.get(); }

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }  // of the world
  int coordinate(Axis axis) const { return mesh_.coordinate(rank_, axis); }

 private:
  Mesh mesh_;
  int rank_;
  std::unique_ptr<comm::Group> all_, embedding_;
  std::map<Axes, std::unique_ptr<comm::Group>> by_axes_;  // only axes of more than one rank
};

}  // namespace mbench::nn
