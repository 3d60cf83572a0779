// A piece of a layer that may be a part whose kept activations go to the host's memory (Plan::offloaded).
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

class OffloadedPiece {
 public:
  OffloadedPiece(const Plan& plan, OffloadedPart part)
      : part_(part), asked_(plan.offloaded.parts.has(part)), min_elements_(plan.min_offloaded_elements) {}
  // Whether what a forward keeps of it leaves.
  bool leaves(const Context& c) const { return asked_ && c.offload.leaves(); }

  // Runs `work`, which returns the piece's output. `kept` names what it keeps of what it was given: keep(tensor). `group` is for
  // Context::offload's bring_back().
  template <class Work, class Kept>
  Tensor forward(Context& c, int& group, const Work& work, const Kept& kept) const {
    group = -1;
    if (!leaves(c)) return work();
    begin(c);
    const Tensor y = work();
    kept([&](const Tensor& t) { c.offload.add(t); });
    group = end(c, y);
    return y;
  }
  // The same step by step, where it leaves.
  void begin(Context& c) const { c.offload.begin_group(c.device); }
  int end(Context& c, const Tensor& output, const Tensor& second = Tensor()) const {
    return c.offload.leave(c.device, static_cast<int>(part_), min_elements_, output, second);
  }

 private:
  OffloadedPart part_;
  bool asked_;
  std::int64_t min_elements_;
};

}  // namespace mbench::nn
