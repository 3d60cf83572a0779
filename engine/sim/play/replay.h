// A simulated step without running it: the virtual clocks of all classes of ranks, from their recordings and schedules.
//
// One thread plays them: each class goes on until it waits for a message or a meeting, then the next one does. Who waits for whom is
// fixed (a Kahn network). So the order makes no difference, and the clocks do exactly what they would do in threads.
#pragma once
#include <initializer_list>
#include <map>
#include <vector>

#include "engine/sim/play/clock.h"
#include "engine/sim/recording/recorder.h"

namespace mbench::sim {

struct ReplayedTime {
  double step = 0;                       // seconds
  double communication = 0, bubble = 0;  // of them, as Meter counts
  TimeByPart parts{};                    // what they were spent on
  ByAxis sent{};                         // bytes handed to collectives and messages
  double matmul_flops = 0;
  std::uint64_t launches = 0;

  void add_sent(const ByAxis& bytes) {
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += bytes[i];
  }
  ReplayedTime& operator+=(const ReplayedTime& o) {
    step += o.step, communication += o.communication, bubble += o.bubble;
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += o.parts[i];
    add_sent(o.sent);
    matmul_flops += o.matmul_flops, launches += o.launches;
    return *this;
  }
};

// Seconds for which a rank's host does nothing for its actions, with the device idle: by the action's place in the schedule. Behind the
// last is what comes after all actions.
using HostPauses = std::map<std::size_t, double>;

// One for each class. Null `links`: messages take no time. `timelines`: gets what each did when, from the beginning of the step. Then
// every event is played; otherwise the sums of equal actions are added. `pauses`: one for each class, or none.
std::vector<ReplayedTime> replay_time(const Plan& plan, const Recording& recording, const HostTimes& times,
                                      const Links* links, std::vector<Timeline>* timelines = nullptr,
                                      const std::vector<HostPauses>& pauses = {});

// Seconds of the device's stream from the first of these recordings to the end of the last, one after the other. Nothing else delays
// it: no collective with another class of ranks, no message, nothing that was started before. The host is far ahead.
double alone(const StepEvents& step_events, std::initializer_list<const ActionEvents*> in_turn, const HostTimes& times);

}  // namespace mbench::sim
