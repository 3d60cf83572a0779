// The result of a simulated step: a row of a table.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spec.h"

namespace mbench {

/// Where a real step is to be expected, in ms: from the errors of simulated against published runs of the same kind.
struct Expected {
  double low_ms = 0, high_ms = 0;
  int rows = 0;       // how many published runs
  std::string about;  // "dense models with megatron-core on one node"
};

/// A value: copies share what they hold.
class MBENCH_EXPORT Result {
 public:
  std::string id() const;
  std::string label() const;
  /// "ok", "oom", "infeasible" or "unsupported". Only an "ok" row has metrics.
  std::string outcome() const;
  bool ok() const;
  /// Why it is not ok, or what there is to say of a row that is.
  std::string reason() const;

  /// A metric by its name in results.json: iteration_ms, tokens_per_s, tflops_per_device, mfu, peak_memory_mib,
  /// reserved_memory_mib, communication_fraction, bubble_fraction, ... (docs/reference/metrics.md). Of one with samples, their
  /// mean. Nothing where it is unknown; throws bad_input with the nearest name where no metric is called so.
  std::optional<double> metric(const std::string& name) const;
  /// Milliseconds of the step by what the slowest rank spent them on; they add up to the step.
  std::map<std::string, double> time_ms() const;
  /// MiB at the moment of the peak, on the fullest rank.
  std::map<std::string, double> memory_mib() const;
  std::optional<Expected> expected() const;
  /// The row as it stands in results.json, its point included.
  std::string json() const;

  struct State;
  explicit Result(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

struct TableOptions {
  std::string format = "md";         // md, csv or json
  std::vector<std::string> tables;   // by name: strategies, long, memory, layouts, ...; empty: what the spec asks for
  std::vector<std::string> columns;  // fields and metrics: the whole table is these, one row a point
};
/// Tables of these rows, as `mbench report` prints them. `spec`: what they are points of.
MBENCH_EXPORT std::string tables(const Spec& spec, const std::vector<Result>& rows, const TableOptions& options = {});
/// A results.json that every command of mbench reads: report, compare, baseline, export.
MBENCH_EXPORT void write_results(const std::string& path, const Spec& spec, const std::vector<Result>& rows);

}  // namespace mbench
