#include "reports/plots/timeline.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "engine/base/json_reader.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 96;       // more cannot be read
constexpr std::size_t kMostKinds = 8;       // more cannot be told apart
constexpr double kShortest = 1.0 / 2000.0;  // of the whole: about a third of a pixel

std::string text_at(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

double microseconds(const Json& event, const char* key, const std::string& where) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number() || !std::isfinite(found->get<double>()))
    fail(ErrorKind::bad_input, where + "." + key, "got {}, need microseconds",
         found == event.end() ? "nothing" : short_json(*found));
  return found->get<double>();
}

// pid and tid: numbers, or texts in traces of others.
std::string id_at(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end()) return "0";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// A rank from a pid: the number, or the place among the pids that are none.
std::int64_t rank_of(const std::string& pid, std::map<std::string, std::int64_t>& others) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), rank);
  if (error == std::errc{} && end == pid.data() + pid.size()) return rank;
  return others.try_emplace(pid, static_cast<std::int64_t>(others.size())).first->second;
}

// Numbers by value, before texts.
bool id_before(const std::string& a, const std::string& b) {
  std::int64_t x = 0, y = 0;
  const bool is_x = std::from_chars(a.data(), a.data() + a.size(), x).ec == std::errc{};
  const bool is_y = std::from_chars(b.data(), b.data() + b.size(), y).ec == std::errc{};
  if (is_x != is_y) return is_x;
  return is_x && x != y ? x < y : a < b;
}

std::string kind_of(const TraceSpan& span) {
  if (span.category == "phase") return span.name.substr(0, span.name.find(' '));
  return span.category.empty() ? "other" : span.category;
}

std::string label_of(const std::string& kind) {
  if (kind == "F" || kind == "forward") return "Forward";
  if (kind == "B" || kind == "backward") return "Backward";
  return kind;
}

// Sorted by start: what follows within `gap` becomes part of the span before it.
std::vector<PlotPoint> merged(const std::vector<const TraceSpan*>& spans, double y, double gap) {
  std::vector<PlotPoint> boxes;
  double short_until = -1;  // the end of the last box if it is made of short spans
  for (const TraceSpan* span : spans) {
    const bool is_short = span->end_ms - span->start_ms < gap;
    if (!boxes.empty() && is_short && short_until >= 0 && span->start_ms - short_until < gap) {
      boxes.back().end = std::max(boxes.back().end, span->end_ms);
      short_until = boxes.back().end;
      continue;
    }
    boxes.push_back({span->start_ms, y, span->end_ms});
    short_until = is_short ? span->end_ms : -1;
  }
  return boxes;
}

}  // namespace

Trace trace_from_json(const Json& json, const std::string& where) {
  const bool wrapped = json.is_object() && json.contains("traceEvents");
  const Json& events = wrapped ? json.at("traceEvents") : json;
  const std::string path = wrapped ? where + ".traceEvents" : where;
  if (!events.is_array())
    fail(ErrorKind::bad_input, path, "not a Chrome trace, need an array of events or an object with \"traceEvents\"");
  std::map<std::pair<std::string, std::string>, std::string> track_names;  // (pid, tid) -> name
  std::map<std::string, std::string> process_names;                        // pid -> name
  std::map<std::string, std::int64_t> other_pids;
  struct Raw {
    std::string pid, tid;
    TraceSpan span;
  };
  std::vector<Raw> raw;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!event.is_object()) fail(ErrorKind::bad_input, at, "got {}, need an event", short_json(event));
    const std::string phase = text_at(event, "ph");
    if (phase == "M" && text_at(event, "name") == "thread_name" && event.contains("args"))
      track_names[{id_at(event, "pid"), id_at(event, "tid")}] = text_at(event.at("args"), "name");
    if (phase == "M" && text_at(event, "name") == "process_name" && event.contains("args"))
      process_names[id_at(event, "pid")] = text_at(event.at("args"), "name");
    if (phase != "X") continue;
    const double start = microseconds(event, "ts", at), duration = microseconds(event, "dur", at);
    if (duration < 0) fail(ErrorKind::bad_input, at + ".dur", "got {}, need no less than 0", duration);
    Raw r{id_at(event, "pid"), id_at(event, "tid"), {}};
    r.span.rank = rank_of(r.pid, other_pids);
    r.span.category = text_at(event, "cat");
    r.span.name = text_at(event, "name");
    r.span.start_ms = start / 1000;
    r.span.end_ms = (start + duration) / 1000;
    raw.push_back(std::move(r));
  }
  if (raw.empty()) fail(ErrorKind::bad_input, path, "no complete event (ph \"X\"), need one to draw");
  std::stable_sort(raw.begin(), raw.end(),
                   [](const Raw& a, const Raw& b) { return a.span.start_ms < b.span.start_ms; });
  Trace trace;
  std::map<std::string, std::string> order;  // track -> its first id
  const double origin = raw.front().span.start_ms;
  for (Raw& r : raw) {
    const auto name = track_names.find({r.pid, r.tid});
    if (const auto process = process_names.find(r.pid); process != process_names.end()) {
      constexpr std::string_view mark = ", simulated";
      std::string text = process->second;
      if (text.ends_with(mark)) {
        text.resize(text.size() - mark.size());
        trace.simulated = true;
      }
      if (!text.empty()) trace.processes[r.span.rank] = text;
    }
    r.span.track = name == track_names.end() || name->second.empty() ? r.tid : name->second;
    r.span.start_ms -= origin;
    r.span.end_ms -= origin;
    const auto [it, fresh] = order.try_emplace(r.span.track, r.tid);
    if (fresh)
      trace.tracks.push_back(r.span.track);
    else if (id_before(r.tid, it->second))
      it->second = r.tid;
    trace.spans.push_back(std::move(r.span));
  }
  std::stable_sort(trace.tracks.begin(), trace.tracks.end(),
                   [&](const auto& a, const auto& b) { return id_before(order.at(a), order.at(b)); });
  return trace;
}

Trace read_trace(const std::string& path) {
  return trace_from_json(parse_json(read_text_file(path), path), path + ": $");
}

TimelinePlot timeline_plot(const Trace& trace, const PlotDeclaration& declaration) {
  TimelinePlot timeline;
  std::map<std::string, std::size_t> track_place;
  for (const std::string& track : trace.tracks) track_place.emplace(track, track_place.size());
  std::map<std::pair<std::int64_t, std::size_t>, std::string> rows;
  std::map<std::string, std::size_t> kinds;  // how many spans of each
  double whole = 0;
  for (const TraceSpan& span : trace.spans) {
    rows[{span.rank, track_place.at(span.track)}] = span.track;
    ++kinds[kind_of(span)];
    whole = std::max(whole, span.end_ms);
  }
  if (rows.size() > kMostRows) {
    timeline.notes.push_back(
        fmt::format("The timeline shows {} of {} rows: more cannot be read on one plot.", kMostRows, rows.size()));
    rows.erase(std::next(rows.begin(), kMostRows), rows.end());
  }
  // The phases first, then the most frequent.
  std::vector<std::string> order;
  for (const auto& [kind, count] : kinds) order.push_back(kind);
  std::stable_sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    const auto weight = [&](const std::string& kind) {
      const std::string label = label_of(kind);
      return label == "Forward" ? 0 : label == "Backward" ? 1 : 2;
    };
    return weight(a) != weight(b) ? weight(a) < weight(b) : kinds.at(a) > kinds.at(b);
  });
  if (order.size() > kMostKinds) {
    timeline.notes.push_back(
        fmt::format("The timeline shows the {} most frequent of {} kinds of spans.", kMostKinds, order.size()));
    order.resize(kMostKinds);
  }
  Plot plot;
  plot.shape = PlotShape::boxes;
  plot.is_broad = true;
  plot.name = plot_slug(declaration.name);
  plot.title = declaration.title;
  plot.x_label = declaration.x_label;
  plot.note = declaration.note;
  for (const std::string& kind : order) plot.series.push_back({label_of(kind), {}, {}, false});
  std::map<std::pair<std::int64_t, std::string>, std::map<std::string, std::vector<const TraceSpan*>>> spans;
  for (const TraceSpan& span : trace.spans) spans[{span.rank, span.track}][kind_of(span)].push_back(&span);
  for (const auto& [place, track] : rows) {
    const double y = static_cast<double>(plot.rows.size());
    const auto process = trace.processes.find(place.first);
    plot.rows.push_back(process == trace.processes.end() ? fmt::format("rank {} {}", place.first, track)
                                                         : process->second + " " + track);
    for (const auto& [kind, list] : spans.at({place.first, track})) {
      const auto found = std::find(order.begin(), order.end(), kind);
      if (found == order.end()) continue;
      PlotSeries& series = plot.series[static_cast<std::size_t>(found - order.begin())];
      const auto boxes = merged(list, y, whole * kShortest);
      series.points.insert(series.points.end(), boxes.begin(), boxes.end());
    }
  }
  std::erase_if(plot.series, [](const PlotSeries& s) { return s.points.empty(); });
  plot.heading = fmt::format("{:.4g} ms", whole);
  plot.simulated = trace.simulated;
  timeline.plots.push_back(std::move(plot));
  return timeline;
}

}  // namespace mbench::reports
