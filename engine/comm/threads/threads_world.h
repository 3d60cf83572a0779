// Groups of ranks that are threads of one process. Tensors must be host memory.
//
// A collective is a meeting: every rank shows the others its tensors, and each does its share of the work on all of
// them. None goes on before all are through. Sums are taken in the order of the ranks, in f32 for 16-bit types, and
// rounded once.
#pragma once
#include <functional>

#include "engine/comm/group.h"

namespace mbench::comm {

// Runs `rank` on `ranks` threads at once, each with its world; the first is this thread. Returns when all have ended.
// Where one throws, the others end at their next meeting. The first error is thrown here, with its rank if there are
// several; launch_failed where the machine gives no thread.
void run_on_threads(int ranks, const std::function<void(World&)>& rank);

}  // namespace mbench::comm
