// What a step was spent on, by the trace of a profiler: PyTorch's (Kineto), as torch.profiler exports it, or any in the Chrome trace format whose device work has
// those categories; and mbench's own (--trace). Kernels are told apart by their names (kernels.json), collectives by their groups.
#pragma once
#include <istream>
#include <string>

#include "explain/parts.h"

namespace mbench::explain {

struct TraceOptions {
  int steps = 0;  // that the trace holds, where it does not mark them (ProfilerStep#N); 0: it does, or is of one
  bool stages =
      false;  // several stages: a message's kernel waits for a neighbour, so that it cannot be told from the bubble
};

// Of the device that was busy longest, at any moment one part: what computes before what communicates. Read in one pass, events alone are kept. bad_input for what
// is no such trace, or has no device work.
MeasuredParts read_trace(std::istream& in, const std::string& file, const TraceOptions& options);

}  // namespace mbench::explain
