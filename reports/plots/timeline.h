// A Chrome trace as a timeline plot. The reader takes what such traces have in common: an array of events, or {"traceEvents": [...]}.
// Complete events (ph "X") have ts and dur in microseconds; pid is the rank, tid the track. Metadata events (ph "M") process_name and
// thread_name give them names. A process whose name ends in ", simulated" is simulated. Other events are skipped.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/plots/plot.h"
#include "reports/plots/plot_declaration.h"

namespace mbench::reports {

struct TraceSpan {
  std::int64_t rank = 0;
  std::string track, category, name;
  double start_ms = 0, end_ms = 0;
};

struct Trace {
  std::vector<TraceSpan> spans;                   // by start; the first span of all begins at 0
  std::vector<std::string> tracks;                // in the order of their ids
  std::map<std::int64_t, std::string> processes;  // rank -> what the trace calls it
  bool simulated = false;                         // the name of a process says so
};

// Throws bad_input naming the file and JSON path for what is no trace, or has no span.
Trace read_trace(const std::string& path);
Trace trace_from_json(const nlohmann::ordered_json& json, const std::string& where);

struct TimelinePlot {
  std::vector<Plot> plots;         // one, or none
  std::vector<std::string> notes;  // what was left out
};

// A row for each rank and track. Spans of category "phase" are grouped by the first word of their name: "F 3" and "B 3" are F and B.
// All others are grouped by their category. Those too short to see are drawn as one with their neighbours.
TimelinePlot timeline_plot(const Trace& trace, const PlotDeclaration& declaration);

}  // namespace mbench::reports
