// Sums the gradients that are partial when backward ends: over data-parallel ranks, in buckets that start as
// soon as backward has filled them; over tp, where a rank saw only a part of the sequence; and of the tied
// word table between first and last stage.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class GradientSync {
 public:
  // `tied`: the group of the first and last stage, or null where this rank has no part in it.
  GradientSync(Device& device, const Plan& plan, ParameterStore& store, Group& dp, Group& tp, Group* tied);

  // The gradients of a unit are final: no micro batch will add to them in this step. Within a chunk units
  // become ready from the last to the first.
  void ready(int unit);
  // After the last backward: starts what is left and waits for all.
  void finish();

 private:
  void flush();
  void sum_over_tp();

  Device& device_;
  ParameterStore& store_;
  Group &dp_, &tp_;
  Group* tied_;
  std::int64_t bucket_elements_;
  std::int64_t begin_ = 0, end_ = 0;  // of the bucket being filled, elements; empty when equal
  std::vector<std::unique_ptr<Pending>> pending_;
};

}  // namespace mbench
