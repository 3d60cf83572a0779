#include "engine/run/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mbench {
namespace {

// Names are ours and of ops: no quotes or control characters come in, but a label may be anything.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
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
  std::string out = fmt::format(R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})",
                                rank.rank, quoted(rank.label));
  const std::vector<Track> tracks = tracks_of(rank.timeline);
  for (std::size_t t = 0; t < tracks.size(); ++t)
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
        rank.rank, t, quoted(tracks[t].name()));
  for (const TimelineSpan& s : rank.timeline.spans()) {
    const auto track = std::find(tracks.begin(), tracks.end(), s.track) - tracks.begin();
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"ts":{:.3f},"dur":{:.3f}}})",
        rank.rank, track, Track::name_of(s.track.kind), quoted(s.name), (s.begin - zero) * 1e6,
        (s.end - s.begin) * 1e6);
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
