// Sums the gradients that are partial when backward ends, by one rule: each parameter's over the axes that its placement
// and the tokens' say (reduce_over of plan/placement.h). Over ranks of data (cp, dp, edp) in buckets that start as soon as
// backward has filled them; over tp, where a rank saw only a part of the sequence, at the end; and a table that the first
// and the last stage share between those.
#pragma once
#include <memory>
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class GradientSync {
 public:
  GradientSync(Device& device, const Plan& plan, const ParameterStore& store, const Groups& groups);

  // The gradients of a unit are final: no micro batch will add to them in this step. Within a chunk units
  // become ready from the last to the first.
  void ready(int unit);
  // After the last backward: starts what is left and waits for all.
  void finish();

 private:
  void flush();
  void reduce_packed(Axes axes);

  Device& device_;
  const ParameterStore& store_;
  const Groups& groups_;
  std::int64_t bucket_elements_;
  ParameterUnit::Run bucket_;  // being filled; empty when begin is end
  std::vector<std::unique_ptr<Pending>> pending_;
};

}  // namespace mbench
