// Runs the points of a sweep one after another, and keeps the result of each. Every point has a session of its own and a hard time-out.
// Simulated points run in this process, where they take milliseconds. results.json and results.md are rewritten after each point. An
// OOM, a hang or a crash is a row. Only Ctrl-C or a disk that cannot be written ends a sweep early, and then the measured rows stay.
#pragma once
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "engine/point/result_file.h"
#include "sweeps/launch/launcher.h"
#include "sweeps/run/forecast.h"
#include "sweeps/run/take_turns.h"
#include "sweeps/spec/spec.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::sweeps {

struct RunnerOptions {
  std::string program;  // this binary
  std::string out;      // folder of the results
  Launcher launcher;
  bool resume = false;
  bool quiet = false;              // no progress, only what went wrong and the tables
  double timeout_s = 0;            // per point; 0: max(600, 20 x its forecast)
  std::string metrics;             // file of OpenMetrics text that is kept up to date; empty: none
  double soak_s = 0;               // each point is trained for so long, and not for its iterations; 0: not
  std::optional<TakeTurns> turns;  // with another sweep of this machine
  double collective_timeout_s =
      0;            // what may be waited for a rank; 0: 300, or half of the point's time-out where that is less
  int columns = 0;  // of the terminal behind `progress`; 0 if it is none
  std::string resume_command;  // what to type to go on after Ctrl-C
  nlohmann::ordered_json environment;
  std::function<Forecast(const Point&)> preflight;              // whether it can be, fits, and how long it takes
  std::function<PointResult(const Point&)> simulate;            // for points of a simulated machine: no process
  std::function<std::string(const ResultFile&)> render_tables;  // results.md, and the tables at the end
  std::function<std::string(const Point&)> trace;               // file of the point's timeline; unset or empty: none
  process::Interrupt* interrupt = nullptr;  // whose signals end the sweep early; one of its own if null
  std::ostream* progress = nullptr;         // stderr
  std::ostream* tables = nullptr;           // stdout
};

struct SweepEnd {
  ResultFile file;
  bool interrupted = false;
  // Some point crashed, hung, could not be launched or gave a wrong loss, or results could not be written.
  bool failed = false;
};

// Throws Error before anything runs: the folder holds other results, or cannot be made.
SweepEnd run_sweep(const Spec& spec, const RunnerOptions& options);

// What --dry-run prints: each point, its command, whether it can run and how long. Writes nothing.
std::string describe_sweep(const Spec& spec, const RunnerOptions& options);

// The preflight's forecast. What it throws becomes the point's outcome.
Forecast forecast_of(const Point& point, const RunnerOptions& options);

}  // namespace mbench::sweeps
