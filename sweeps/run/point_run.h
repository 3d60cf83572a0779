// Runs one point under its launcher and reports its result. Files of a point, below the folder of the sweep:
//
//   points/<id>.point.json  What `mbench run` reads.
//   points/<id>.json        Its result: written by rank 0 and completed here, or written here if the run could not.
//   points/<id>.log         What the ranks and the launcher printed.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "engine/point/result.h"
#include "engine/process/process.h"
#include "sweeps/launch/launcher.h"
#include "sweeps/launch/probe.h"
#include "sweeps/run/take_turns.h"
#include "sweeps/spec/spec.h"
#include "sweeps/store/session_folder.h"

namespace mbench::sweeps {

// What rank 0 reports of the run, a line of JSON each on stdout:
//
//   {"progress": {"phase": "init"|"warmup"|"iteration"|"soak", "iteration": 3, "of": 10, "ms": 12.3, "loss": 2.1}}
//
// `of` is 0 in a soak, which ends by the clock.
struct ProgressMessage {
  std::string phase;
  std::int64_t iteration = 0, of = 0;
  std::optional<double> ms, loss;
  std::string str() const;  // "iteration 3 of 10", "soak step 812"
};
// Nothing if the line is something else.
std::optional<ProgressMessage> read_progress(std::string_view line);

// In a soak it also reports each window when it ends: {"window": ...}, a soak of only that window.
std::optional<SoakWindow> read_window(std::string_view line);

// What rank 0 prints where ranks may be on other hosts, since it may not see the sweep's folder there. It also prints this where it
// could not write a file of its own, the record or the trace; then it ends with exit code 3.
//
//   {"record": {...}}      {"record": {...}, "unwritten": "[FILE] could not be written: ..."}
struct ReportedRecord {
  PointResult result;
  std::string unwritten;  // why; empty where it is reported because nothing was to be written
};
std::optional<ReportedRecord> read_record(std::string_view line);

// A part of the trace's file, from the same: {"trace": "...", "more": true}
struct ReportedTrace {
  std::string text;
  bool more = false;  // to come
};
std::optional<ReportedTrace> read_trace(std::string_view line);

struct PointRun {
  std::string program;  // this binary
  std::string out;      // folder of the sweep
  Launcher launcher;
  const SessionFolder* session = nullptr;  // where the ranks' MPI keeps its files; null: where it likes
  double timeout_s = 0;
  double soak_s = 0;                // it is trained for so long, and not for its iterations; 0: not
  std::optional<TakeTurns> turns;   // with another sweep
  double collective_timeout_s = 0;  // 0: 300, or half of the time-out where that is less
  std::string trace;                // file of the timeline; empty: none
  process::Interrupt* interrupt = nullptr;
  std::function<void(const ProgressMessage&)> on_progress;
  std::function<void(const SoakWindow&)> on_window;
  // Some ten times a second: of each rank the seconds since its last sign of life.
  std::function<void(const std::map<std::int64_t, double>& silence, const std::vector<Host>& hosts)> on_silence;
};

std::string point_file(const std::string& out, const std::string& id, const std::string& suffix);

// `mbench run <point file> --result <result file> --progress`, and further options of the run. Where ranks may be on other hosts, these
// need not see the sweep's folder. Then the point itself is passed, and its record and trace come on standard output.
std::vector<std::string> run_arguments(const PointRun& run, const SpecPoint& point);

struct PointEnd {
  // Nothing if it was interrupted before it had reported a measured step; partial if it was interrupted after that.
  std::optional<PointResult> result;
  // Whether it was measured but a file could not be written, as the row's reason says.
  bool unwritten = false;
  std::optional<ReportedHosts> reported;  // where it ran, if its ranks came so far
  // Names of hosts that may be lost, and lines of the launcher that name such; empty where it ended well.
  std::vector<std::string> lost_hosts;
};

// A point that was cut short keeps the steps that it had reported (partial_ms). Throws Error only if its own files cannot be written.
PointEnd run_point(const SpecPoint& point, const PointRun& run);

}  // namespace mbench::sweeps
