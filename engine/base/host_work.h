// What a framework's host does beside enqueueing the ops and collectives of the engine.
#pragma once
#include <cstdint>

namespace mbench {

// Work of the host that no op or collective stands for. A simulated device charges for it.
enum class HostWork : std::uint8_t {
  micro_batch,  // a micro batch is fetched and unpacked
  recompute,    // a region of saved activations is computed again
  replicas,     // what follows is done by all replicas of a process at once, a thread each
  alone,        // and what follows that is not
  step,         // an optimizer step begins
  next_step,    // a step has ended, and the inputs of the next are waited for
  loss,         // the loss of a micro batch has been computed
  mixture,      // a mixture of experts to which rows are sent begins its forward or its backward
  product,      // of a layer's weight, by the framework's own module
  call,         // a small op that the framework enqueues where the engine has none
  parameter     // a weight tensor of those that are about to be updated
};

}  // namespace mbench
