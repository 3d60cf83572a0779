// A pipeline schedule: for each stage, the list of what it does in a step, in order.
//
// A send is started and not waited for. It is completed at a fixed place, before the stage's next send of the same kind to the same stage.
// So memory does not depend on timing. Under this rule no schedule deadlocks even where every send waits for its receive (a test proves
// it).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

struct Action {
  enum class Kind {
    receive_activation,  // the input of forward(chunk, micro) from the stage before, at that forward or earlier
    forward,
    send_activation,   // its output to the stage after
    receive_gradient,  // the gradient of that output from the stage after
    backward,
    send_gradient,  // the gradient of the input to the stage before
    // The GEMMs of the weights' gradients of backward(chunk, micro), which then leaves them out. Only in schedules that split backward.
    weight_gradient
  } kind;
  int chunk = 0;  // which of the stage's chunks
  int micro = 0;  // which micro batch
  int part = 0;   // of a forward or backward that stops where its tokens travel to experts or back (ChunkPlan::pauses)
  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;
constexpr int kActionKinds = 7;

std::string_view name_of(Action::Kind kind);
// As a phase of a trace: "forward 3", or "forward 3 of chunk 1" where a stage has several chunks.
std::string phase_name(const Action& action);

}  // namespace mbench
