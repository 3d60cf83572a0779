// What actions do to the clock of their rank, remembered: thousands of micro batches do the same.
//
// An action that talks to no other class of ranks and waits for nothing but what it has started itself does the same to the clocks
// whenever these stand alike (VirtualClock::standing), to the last bit, since times are whole ticks. So it is played once for each way
// to stand, and from then on its sum is added.
#pragma once
#include <array>
#include <optional>
#include <unordered_map>

#include "engine/sim/replay.h"

namespace mbench::sim {

class Repeats {
 public:
  explicit Repeats(const HostTimes& times) : times_(times) {}

  struct Known {
    VirtualClock::Move move;
    ReplayedTime time;
  };
  // Where what this recording does to such a clock stands, or is to be put; null where it has to be played each time.
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
