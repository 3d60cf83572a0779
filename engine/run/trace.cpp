#include "engine/run/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mbench {
namespace {

constexpr const char* kTracks[] = {"phase", "compute", "communication", "host"};

// Names are ours and of ops: no quotes or control characters come in, but a label may be anything.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
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
  for (int t = 0; t < 4; ++t)
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})",
        rank.rank, t, kTracks[t]);
  for (const TimelineSpan& s : rank.timeline.spans()) {
    const int track = static_cast<int>(s.track);
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"ts":{:.3f},"dur":{:.3f}}})",
        rank.rank, track, kTracks[track], quoted(s.name), (s.begin - zero) * 1e6, (s.end - s.begin) * 1e6);
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
