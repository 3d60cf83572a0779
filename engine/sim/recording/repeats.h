// Remembers what actions do to the clock of their rank, since thousands of micro batches do the same.
//
// Some actions talk to no other class of ranks and wait only for what they started themselves. From clocks of equal standing
// (VirtualClock::standing) such an action always does the same, to the last bit, since times are whole ticks. So it is played once for
// each standing, and then only its sum is added.
#pragma once
#include <array>
#include <optional>
#include <unordered_map>

#include "engine/sim/play/replay.h"

namespace mbench::sim {

class Repeats {
 public:
  explicit Repeats(const HostTimes& times) : times_(times) {}

  struct Known {
    VirtualClock::Move move;
    ReplayedTime time;
  };
  // The remembered effect of this recording on such a clock, or an empty place for it. Null where it has to be played each time.
  std::optional<Known>* of(const ActionEvents& action_events, const StepEvents& step_events, const VirtualClock& clock);

 private:
  struct Action {
    bool alone = false;                         // as above
    double host_work = 0;                       // seconds, until the host waits for the stream
    std::array<std::optional<Known>, 2> known;  // by standing
  };
  Action look_at(const ActionEvents& action_events, const StepEvents& step_events) const;

  HostTimes times_;
  std::unordered_map<const ActionEvents*, Action> actions_;
};

}  // namespace mbench::sim
