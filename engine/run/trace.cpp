#include "engine/run/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace mbench {
namespace {

using nlohmann::ordered_json;

// In a label or a name may stand anything; what is not UTF-8 is replaced.
std::string text_of(const ordered_json& event) {
  return event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json name_of_process(int rank, const std::string& label) {
  return {{"ph", "M"}, {"pid", rank}, {"tid", 0}, {"name", "process_name"}, {"args", {{"name", label}}}};
}

ordered_json name_of_thread(int rank, std::size_t track, const std::string& name) {
  return {{"ph", "M"}, {"pid", rank}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", name}}}};
}

// To the nanosecond.
double microseconds(double seconds) {
  return std::nearbyint(seconds * 1e6 * 1e3) / 1e3;
}

// Phases above the compute stream above the streams of groups, those in the order in which they were first used.
std::vector<Track> tracks_of(const Timeline& timeline) {
  std::vector<Track> tracks{Track::phase, Track::compute};
  for (const TimelineSpan& s : timeline.spans())
    if (std::find(tracks.begin(), tracks.end(), s.track) == tracks.end()) tracks.push_back(s.track);
  return tracks;
}

}  // namespace

double start_of(const Timeline& timeline) {
  double first = std::numeric_limits<double>::max();
  for (const TimelineSpan& s : timeline.spans()) first = std::min(first, s.begin);
  return timeline.spans().empty() ? 0 : first;
}

std::string chrome_events(const RankTimeline& rank, double zero) {
  std::string out = text_of(name_of_process(rank.rank, rank.label));
  const std::vector<Track> tracks = tracks_of(rank.timeline);
  for (std::size_t t = 0; t < tracks.size(); ++t)
    out += ",\n" + text_of(name_of_thread(rank.rank, t, tracks[t].name()));
  for (const TimelineSpan& s : rank.timeline.spans())
    out += ",\n" + text_of({{"ph", "X"},
                            {"pid", rank.rank},
                            {"tid", std::find(tracks.begin(), tracks.end(), s.track) - tracks.begin()},
                            {"cat", Track::name_of(s.track.kind)},
                            {"name", s.name},
                            {"ts", microseconds(s.begin - zero)},
                            {"dur", microseconds(s.end - s.begin)}});
  for (const TraceCounter& counter : rank.memory) {
    ordered_json values = ordered_json::object();
    for (const auto& [name, mib] : counter.mib) values[name] = std::round(mib * 1e3) / 1e3;
    out += ",\n" + text_of({{"ph", "C"},
                            {"pid", rank.rank},
                            {"name", "memory, MiB"},
                            {"ts", microseconds(counter.at - zero)},
                            {"args", std::move(values)}});
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
