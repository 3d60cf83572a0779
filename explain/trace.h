// What a step was spent on, by the trace of a profiler. It may be PyTorch's (Kineto), as torch.profiler exports it, any in the Chrome
// trace format whose device work has those categories, or mbench's own (--trace). Kernels are classified by their names (kernels.json),
// collectives by their groups.
#pragma once
#include <istream>
#include <string>

#include "explain/parts.h"

namespace mbench::explain {

struct TraceOptions {
  int steps = 0;  // that the trace holds, where it does not mark them (ProfilerStep#N); 0: it does, or is of one
  bool stages =
      false;  // several stages: a message's kernel waits for a neighbour, so it cannot be separated from the bubble
};

// Parts of the device that was busy longest. At any moment it is one part: computation goes before communication. The trace is read in
// one pass, and only events are kept. Throws bad_input for a file that is no such trace, or has no device work.
MeasuredParts read_trace(std::istream& in, const std::string& file, const TraceOptions& options);

}  // namespace mbench::explain
