// Recompute of a region (spec/regions.h). This is the one place that does it: a region is any forward with what it saves.
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

class Checkpoint {
 public:
  // `dropped`: whether the plan drops the region.
  explicit Checkpoint(bool dropped) : dropped_(dropped) {}

  // After the region's forward: frees what it saved. True if it did, and the caller keeps the input if that does not
  // live on elsewhere.
  template <class Saved>
  bool drop(Saved& saved) const {
    if (dropped_) saved = Saved();
    return dropped_;
  }
  bool dropped() const { return dropped_; }
  // Before the region's backward: runs `forward` again, which fills what the region saves.
  template <class Forward>
  void restore(Context& context, const Forward& forward) const {
    if (!dropped_) return;
    context.device.host_work(HostWork::recompute);
    forward();
  }

 private:
  bool dropped_;
};

}  // namespace mbench::nn
