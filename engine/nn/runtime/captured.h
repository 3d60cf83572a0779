// A piece of a layer that may be captured (Plan::captured): what is one graph, or a part of the graph before it.
#pragma once
#include <utility>

#include "engine/nn/runtime/context.h"
#include "engine/ops/run.h"
#include "engine/point/architecture.h"

namespace mbench::nn {

// Whether all of a branch is captured as a part.
bool captured_whole(const CapturedParts& parts, const BranchSpec& branch);

class CapturedPiece {
 public:
  // Whether it follows a captured piece at once, and is of the same graph: then the host launches nothing for it, and what it reads lies
  // in the graph's memory.
  bool joined = false;

  // Runs `work`, captured or not.
  template <class Work>
  void graph(Context& c, bool captured, const MicroBatch& batch, const Work& work) const {
    if (!captured) return work();
    c.graphs.run(c.device, {this, batch.sample0}, !joined, work);
  }
  // Where a captured piece reads its input: where the framework's graphs have inputs of their own (Keeps::captured_inputs), in a copy.
  Tensor own_input(Context& c, bool captured, const Tensor& input) const;
  // Both: runs `work` on the input.
  template <class Work>
  void run(Context& c, bool captured, const MicroBatch& batch, const Tensor& input, const Work& work) const {
    const Tensor own = own_input(c, captured, input);
    graph(c, captured, batch, [&] { work(own); });
  }
};

}  // namespace mbench::nn
