// What ran when on one rank: spans in seconds of the device's clock, on named tracks. Filled only while a trace is
// asked for; written as a Chrome trace by engine/run/trace.h. A track is a stream of the device, whose work runs in
// order, or the phases of a step as the host goes through them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

struct Track {
  enum Kind { phase, compute, communication, copies, host };
  Kind kind;
  // For communication: whose collectives these are, since each group has a stream of its own; empty where the compute
  // stream waits for them. For copies: which way, to the host or to the device.
  std::string group;

  Track(Kind k, std::string_view of = {}) : kind(k), group(of) {}
  std::string name() const {  // "communication tp"
    return group.empty() ? std::string(name_of(kind)) : std::string(name_of(kind)) + " " + group;
  }
  static std::string_view name_of(Kind kind) {
    constexpr std::string_view names[] = {"phase", "compute", "communication", "copies", "host"};
    return names[kind];
  }
  bool operator==(const Track&) const = default;
};

struct TimelineSpan {
  Track track;
  std::string name;
  double begin = 0, end = 0;
};

class Timeline {
 public:
  void add(const Track& track, std::string_view name, double begin, double end) {
    spans_.push_back({track, std::string(name), begin, end});
  }
  const std::vector<TimelineSpan>& spans() const { return spans_; }
  void clear() { spans_.clear(); }

 private:
  std::vector<TimelineSpan> spans_;
};

}  // namespace mbench
