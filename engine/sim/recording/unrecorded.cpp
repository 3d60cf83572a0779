#include "engine/sim/recording/unrecorded.h"

namespace mbench::sim {

std::string_view text_of(Unrecorded why) {
  switch (why) {
    case Unrecorded::split_gradients:
      return "its backward is split, and gradients are reduced in every micro batch";
    case Unrecorded::alternating_weights:
      return "forwards and backwards take turns, and share the weights that either gathers";
    case Unrecorded::deferred_gradients:
      return "gradients of weights are deferred";
    case Unrecorded::order:
      return "its schedule does not take the micro batches in order";
    case Unrecorded::host_values:
      return "values of the host decide what is done";
    case Unrecorded::overlapped_receive:
      return "something overlaps with a message that arrives";
    case Unrecorded::host_memory:
      return "host memory has no room";
    case Unrecorded::host_blocks:
      return "tensors in host memory outlive their micro batch";
    case Unrecorded::blocks:
      return "tensors outlive their micro batch";
    case Unrecorded::unsteady:
      return "each step leaves more memory in use";
    case Unrecorded::memory_differs:
      return "micro batches allocate differently";
    case Unrecorded::times_differ:
      return "micro batches do different work";
  }
  return "";
}

}  // namespace mbench::sim
