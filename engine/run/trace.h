// Timelines of ranks as a Chrome trace (the Trace Event Format, which Perfetto and chrome://tracing open). A rank is a process, a track a
// thread. Times are in microseconds from the start of the step.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/device/timeline.h"

namespace mbench {

// What a rank holds at a moment, by name: a counter in the trace.
struct TraceCounter {
  double at = 0;  // seconds of the rank's clock
  std::vector<std::pair<std::string, double>> mib;
};

struct RankTimeline {
  int rank = 0;
  std::string label;  // "rank 0, stage 0"
  Timeline timeline;
  std::vector<TraceCounter> memory = {};  // empty where nobody knows
};

// The whole file as text.
std::string chrome_trace(const std::vector<RankTimeline>& ranks);

// The events of one rank, joined by commas; and a whole file from such texts, for ranks of other processes. `zero` is the time of the
// rank's clock that becomes 0.
std::string chrome_events(const RankTimeline& rank, double zero);
std::string chrome_file(const std::vector<std::string>& events);

// When the earliest span begins; 0 if there is none.
double start_of(const Timeline& timeline);

}  // namespace mbench
