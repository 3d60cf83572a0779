#include "engine/nn/runtime/groups.h"

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"

namespace mbench::nn {
namespace {

// What training talks over. Every rank makes all of them, whatever its stage: making a group is collective.
constexpr Axes kSets[] = {
    {},                                        // a group of one
    {Axis::tp},                                // activations
    {Axis::cp},                                // activations; gradients
    {Axis::tp, Axis::cp},                      // a sequence split over both
    {Axis::dp},                                // gradients
    {Axis::cp, Axis::dp},                      // gradients
    {Axis::dp_replicate},                      // gradients, between copies of sharded state
    {Axis::dp, Axis::dp_replicate},            // what all samples of a step decide
    {Axis::cp, Axis::dp, Axis::dp_replicate},  // gradients that are whole
    {Axis::pp},                                // activations between stages
    {Axis::tp, Axis::pp},                      // the norm of the gradient
    {Axis::etp},                               // experts
    {Axis::ep},
    {Axis::edp},
    {Axis::edp, Axis::dp_replicate},
};

}  // namespace

Groups::Groups(Device& device, comm::World& world, const Mesh& mesh, bool experts, const std::vector<int>& words)
    : mesh_(mesh), rank_(world.rank()) {
  std::vector<int> everyone(static_cast<std::size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  all_ = world.group(device, "world", everyone);
  for (const Axes& set : kSets) {
    const Axes real = mesh.real(set);
    const bool of_experts = !(real & (kExpertAxes - kDenseAxes)).empty();
    if (by_axes_.contains(real) || (of_experts && !experts)) continue;
    by_axes_[real] =
        world.group(device, real.empty() ? comm::GroupName("self") : comm::GroupName(real), mesh.members(rank_, real));
  }
  const std::vector<int> stages = mesh.members(rank_, {Axis::pp});
  if (stages.size() == 1 || words.size() == 1) return;
  std::vector<int> members;
  for (const int stage : words) members.push_back(stages.at(static_cast<std::size_t>(stage)));
  const bool ends = members == std::vector<int>{stages.front(), stages.back()};
  if (std::find(members.begin(), members.end(), rank_) == members.end()) members.clear();
  embedding_ = world.group(device, {ends ? "first and last stage" : "stages with words", {Axis::pp}}, members);
}

comm::Group& Groups::over(Axes axes) const {
  const auto it = by_axes_.find(mesh_.real(axes));
  if (it == by_axes_.end()) fail(ErrorKind::internal, "groups", "no group over {}", str(axes));
  return *it->second;
}

}  // namespace mbench::nn
