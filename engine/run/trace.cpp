#include "engine/run/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace mbench {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTracks[] = {"phase", "compute", "communication", "host"};

// In a label or a name may stand anything; what is not UTF-8 is replaced.
std::string text_of(const ordered_json& event) {
  return event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json name_of_process(int rank, const std::string& label) {
  return {{"ph", "M"}, {"pid", rank}, {"tid", 0}, {"name", "process_name"}, {"args", {{"name", label}}}};
}

ordered_json name_of_thread(int rank, int track) {
  return {{"ph", "M"},
          {"pid", rank},
          {"tid", track},
          {"name", "thread_name"},
          {"args", {{"name", kTracks[track]}}}};
}

// To the nanosecond.
double microseconds(double seconds) {
  return std::nearbyint(seconds * 1e6 * 1e3) / 1e3;
}

}  // namespace

double start_of(const Timeline& timeline) {
  double first = std::numeric_limits<double>::max();
  for (const TimelineSpan& s : timeline.spans()) first = std::min(first, s.begin);
  return timeline.spans().empty() ? 0 : first;
}

std::string chrome_events(const RankTimeline& rank, double zero) {
  std::string out = text_of(name_of_process(rank.rank, rank.label));
  for (int t = 0; t < 4; ++t) out += ",\n" + text_of(name_of_thread(rank.rank, t));
  for (const TimelineSpan& s : rank.timeline.spans()) {
    const int track = static_cast<int>(s.track);
    out += ",\n" + text_of({{"ph", "X"},
                            {"pid", rank.rank},
                            {"tid", track},
                            {"cat", kTracks[track]},
                            {"name", s.name},
                            {"ts", microseconds(s.begin - zero)},
                            {"dur", microseconds(s.end - s.begin)}});
  }
  return out;
}

std::string chrome_file(const std::vector<std::string>& events) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < events.size(); ++i) out += (i ? ",\n" : "") + events[i];
  return out + "\n]}\n";
}

std::string chrome_trace(const std::vector<RankTimeline>& ranks) {
  double zero = std::numeric_limits<double>::max();
  for (const RankTimeline& r : ranks)
    if (!r.timeline.spans().empty()) zero = std::min(zero, start_of(r.timeline));
  std::vector<std::string> events;
  for (const RankTimeline& r : ranks) events.push_back(chrome_events(r, zero));
  return chrome_file(events);
}

}  // namespace mbench
