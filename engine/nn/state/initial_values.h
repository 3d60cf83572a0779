// The initial values of parameters: the same on every layout, since a draw depends on a weight's name and an element's place in it only.
#pragma once
#include <functional>

#include "engine/nn/runtime/groups.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

struct Parameter;

class InitialValues {
 public:
  InitialValues(Device& device, const Plan& plan, const Groups& groups)
      : device_(device), plan_(plan), groups_(groups) {}

  // Rows of this rank's part of a parameter, from `row` on, into `target`, which holds zeros where they are zero.
  void set_rows(const Parameter& parameter, const Tensor& target, std::int64_t row) const;
  // The whole of this rank's part, block by block in f32, so that a rank which keeps little of it needs little memory. `wanted`: whether
  // any of the elements [begin, end) is kept; they count from the parameter's place in its flat space. `keep` gets a block and where it
  // begins. Nothing is drawn where all is zero.
  using Wanted = std::function<bool(std::int64_t begin, std::int64_t end)>;
  using Keep = std::function<void(const Tensor& block, std::int64_t begin)>;
  void by_blocks(const Parameter& parameter, const Wanted& wanted, const Keep& keep) const;

 private:
  void draw_rows(const Parameter& parameter, const Tensor& target, std::int64_t row0, std::int64_t col0) const;

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
};

}  // namespace mbench::nn
