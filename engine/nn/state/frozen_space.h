// Frozen values of one type in a flat tensor: weights in the model's type, or codes of weights. They are whole on every rank and never
// travel. Where the plan shards weights, a rank has its part of them, and a unit's are gathered for each use.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "engine/nn/runtime/groups.h"
#include "engine/nn/state/state_layout.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

class FrozenSpace {
 public:
  FrozenSpace(Device& device, const Plan& plan, const Groups& groups) : device_(device), plan_(plan), groups_(groups) {}

  // The elements of a weight; `data`: the axes of data along which it is replicated. Units ascend. Returns its place among the items.
  std::size_t add(std::int64_t elements, Axes data, int unit);
  bool empty() const { return items_.empty(); }
  void allocate(int units, DType type, std::string_view what);

  // What is here of the elements [begin, end) of an item: from `first` of them on, as they lie in own(). Empty where others have them.
  struct Here {
    std::int64_t first = 0;
    Tensor values{};
  };
  Here here(std::size_t item, std::int64_t begin, std::int64_t end) const;

  // The values are there from begin_use() to end_use(). fetch() starts to gather them, if they are not there.
  void fetch(int unit);
  void begin_use(int unit);
  void end_use(int unit);
  // An item in that shape, within a use of its unit.
  Tensor of(std::size_t item, const Shape& shape) const;

  const Tensor& own() const { return own_; }  // whole, or this rank's part
  bool sharded() const { return plan_.state.weights.sharded(); }

 private:
  struct Bucket {
    Tensor values;                            // gathered
    std::unique_ptr<comm::Pending> arriving;  // these
  };

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
  std::vector<StateLayout::Item> items_;
  std::vector<int> bucket_of_;  // [item], where sharded
  std::vector<Bucket> buckets_;
  StateLayout layout_;
  Tensor own_;
};

}  // namespace mbench::nn
