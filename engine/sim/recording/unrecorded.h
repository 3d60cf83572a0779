// Why a step has no recording, so that every op of it is run.
#pragma once
#include <cstdint>
#include <string_view>

namespace mbench::sim {

enum class Unrecorded : std::uint8_t {
  split_gradients,      // backward is split, and gradients are reduced in every micro batch
  alternating_weights,  // a forward and a backward take turns, and share weights that were gathered
  deferred_gradients,   // of weights, after all backwards
  order,                // of micro batches in the schedule
  host_values,          // decide what is done
  overlapped_receive,   // something is done while a message arrives
  host_memory,          // has no room
  host_blocks,          // of a life that is neither a micro batch's nor the job's
  blocks,               // likewise, of the device's memory
  unsteady,             // each step leaves more memory in use
  memory_differs,       // between micro batches
  times_differ          // likewise
};
// As the end of "this step has no recording: ...".
std::string_view text_of(Unrecorded why);

}  // namespace mbench::sim
