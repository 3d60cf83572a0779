// Simulates steps on a machine of any size, without having it. mbench records the engine's own code and replays the recording on
// virtual clocks. A machine's file holds its figures and laws, each with its source (docs/simulation.md).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan.h"
#include "result.h"
#include "spec.h"

namespace mbench {

/// A result that costs less than simulate(). Time and handed-out memory are the same, but blocks are not placed in memory.
struct Estimate {
  double step_ms = 0;
  double peak_memory_mib = 0;  // of the fullest rank
  int fullest_rank = 0;
};

struct SearchOptions {
  std::string objective =
      "time";       // time, memory, tokens_per_device, tokens_per_joule, or devices (the fewest that reach `rate`)
  double rate = 0;  // tokens/s, for devices
  std::size_t best = 10;  // how many layouts are asked for
  bool front = true;      // the Pareto front of time and memory too
  int threads = 1;
  std::string memory_margin;     // "5%" or "4GiB" of a device that stays free; empty: the framework's own share
  std::vector<std::string> set;  // as SpecOptions::set; "tp=any" and "tp=[1,2]" are free
  struct Progress {
    std::size_t meshes = 0, decided_meshes = 0, layouts = 0, decided = 0, simulated = 0;
    std::optional<double> best_ms;
  };
  std::function<void(const Progress&)> progress;  // between waves, on the calling thread
  std::function<bool()> interrupted;              // asked as often; true ends the search with what it has
};

struct SearchResult {
  std::vector<Result> best;   // in order
  std::vector<Result> front;  // fastest first: each the fastest of all layouts that take no more memory
  std::map<std::string, std::size_t> refused;    // impossible layouts, by the reason of one of them
  std::map<std::string, std::size_t> too_large;  // layouts that do not fit, by rank and category that decide
  std::size_t layouts = 0, simulated = 0, by_lower_bound = 0;
  double seconds = 0;  // of wall clock
  bool interrupted = false;
};

struct SimulatorOptions {
  std::string framework;                  // a preset's name for every point; empty: what the spec says
  std::map<std::string, double> figures;  // of the machine, other than in its file: {"network.gbps_per_device", 400}
};

/// One machine. Recordings are kept between calls, so points that share layers cost less. One object serves one call at a time.
class MBENCH_EXPORT Simulator {
 public:
  /// `machine`: "8xH100-SXM5-80GB" or "sim:8xH100-SXM5-80GB", short forms of a name ("8xH100-SXM", "8xH100"), or "8xFILE.json".
  /// Throws bad_input with the nearest name.
  explicit Simulator(const std::string& machine, const SimulatorOptions& options = {});
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// "8xH100-SXM5-80GB", in full.
  std::string machine() const;
  int devices() const;

  /// A row. A layout that is impossible or does not fit gives a row with that outcome. Throws bad_input where the machine's file lacks
  /// a figure that the point needs.
  Result simulate(const Spec& spec, std::size_t point = 0);
  /// All points of a spec. `interrupted` is asked before each: true ends the list there.
  std::vector<Result> simulate_all(const Spec& spec, const std::function<bool()>& interrupted = {});
  /// Throws where simulate() reports an outcome other than ok, but never because memory is full.
  Estimate estimate(const Spec& spec, std::size_t point = 0);
  /// The step on a machine with other figures, by their paths in its file: {{"network.gbps_per_device", 800}}.
  Result what_if(const std::map<std::string, double>& figures, const Spec& spec, std::size_t point = 0);
  /// The best layouts of a spec in which fields are free ("any", a list of values, or named in "search"). Of a trainer's file, and of a
  /// spec that names none, the layout is free. `spec`: a file, or its JSON where it begins with "{".
  SearchResult search(const std::string& spec, const SearchOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The machines, frameworks and models that come with mbench, by name.
MBENCH_EXPORT std::vector<std::string> machines();
MBENCH_EXPORT std::vector<std::string> frameworks();
MBENCH_EXPORT std::vector<std::string> models();
/// A machine's file: every figure with its source. `name` may be a path.
MBENCH_EXPORT std::string machine_json(const std::string& name);

}  // namespace mbench
