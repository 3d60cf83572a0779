// Activations that go to the host's memory in forward and come back before their backward (Plan::offloaded), by copies that overlap with
// what the device computes.
//
// What a piece of a layer keeps is a group. Its copies begin when the piece has been enqueued. When the next group of that kind leaves, the
// device's memory of this one is given back; at the end of the chunk's forward, the memory of all groups. So at most a layer's groups are on
// both sides, and memory does not depend on timing. In backward a group is waited for where it is needed. Meanwhile as many come as a
// layer has.
#pragma once
#include <memory>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

struct OffloadGroup {
  enum class Where { device, leaving, host, coming };
  struct Moved {
    TensorMemory memory;
    Tensor host;
    std::unique_ptr<HostCopy> copy;
  };
  int kind = 0;
  Where where = Where::device;
  std::vector<Moved> moved;
};
// Of one micro batch in one chunk, in the order of its forward.
using OffloadGroups = std::vector<OffloadGroup>;

class ActivationOffload {
 public:
  static constexpr int kLayer = kOffloadedParts;  // the kind of whole layers' groups; others have their part's

  // Around the layers of a chunk's forward and of its backward.
  void begin_forward(OffloadGroups& groups) { groups_ = &groups, forward_ = true; }
  void end_forward(Device& device);
  void begin_backward(Device& device, OffloadGroups& groups);
  void end_backward();
  // Whether the layer that runs next has what it keeps moved.
  void of_layer(bool moves) { moves_ = moves; }
  // Whether a forward runs whose kept activations leave. Not where a backward runs it again.
  bool leaves() const { return groups_ != nullptr && forward_ && moves_; }

  // From here on it is seen what the device makes. leave() moves what of it, and of what was added, something still holds, but for
  // the two outputs. It returns the number of the group for bring_back(); -1: there is nothing to move.
  void begin_group(Device& device);
  void add(const Tensor& kept) {
    if (kept) made_.add(kept);
  }
  int leave(Device& device, int kind, std::int64_t min_elements, const Tensor& output, const Tensor& second = Tensor());
  // What is enqueued from now on finds the group on the device; -1: there is none.
  void bring_back(Device& device, int group);

 private:
  void away(OffloadGroup& group);
  void fetch(Device& device, OffloadGroup& group);
  void fetch_ahead(Device& device);

  OffloadGroups* groups_ = nullptr;
  bool forward_ = false, moves_ = false;
  std::size_t ahead_ = 0;  // groups that come at a time in this backward
  TensorList made_;
};

}  // namespace mbench::nn
