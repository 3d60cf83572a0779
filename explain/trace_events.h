// The device's work in a Chrome trace, event by event: a JSON reader that keeps nothing but what it hands on.
#pragma once
#include <functional>
#include <istream>
#include <string>

namespace mbench::explain {

struct TraceEvent {
  std::string category, name, phase;
  double begin_us = 0, duration_us = 0;
  std::string process;            // pid: of device work the device
  std::string group, collective;  // of NCCL's kernels: "Process Group Description", "Collective name"
  std::string thread;             // tid, or the stream
};

// Calls `found` with each event of "traceEvents", or of a trace that is an array. Throws bad_input for what is no JSON, naming the
// byte.
void each_event(std::istream& in, const std::string& file, const std::function<void(const TraceEvent&)>& found);

}  // namespace mbench::explain
