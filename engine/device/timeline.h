// What ran when on one rank: spans in seconds of the device's clock, on named tracks. Filled only while a
// trace is asked for; written as a Chrome trace by engine/run/trace.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

enum class Track { phase, compute, communication, host };

struct TimelineSpan {
  Track track;
  std::string name;
  double begin = 0, end = 0;
};

class Timeline {
 public:
  void add(Track track, std::string_view name, double begin, double end) {
    spans_.push_back({track, std::string(name), begin, end});
  }
  const std::vector<TimelineSpan>& spans() const { return spans_; }
  void clear() { spans_.clear(); }

 private:
  std::vector<TimelineSpan> spans_;
};

}  // namespace mbench
