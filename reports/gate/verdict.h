// What a comparison can conclude, and what its user asked for: thresholds, the metrics that count, the
// verdicts that fail it.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace mbench::reports {

struct Thresholds {  // fractions: 0.05 is 5 %
  double time = 0.05, memory = 0, energy = 0.05;
  std::optional<double> loss;  // by precision unless set
};

// The metrics that are compared by default: time, memory, loss.
const std::vector<std::string>& compared_metrics();
// All metrics that can be compared: energy too.
const std::vector<std::string>& comparable_metrics();
void check_metrics(const std::vector<std::string>& metrics);  // throws bad_input naming --metric if one is none

// "time=5%": sets one of time, memory, loss, energy; throws bad_input naming the option otherwise.
void set_threshold(Thresholds& thresholds, const std::string& text, const std::string& option = "--threshold");

enum class Verdict {
  same,
  faster,
  slower,
  smaller,
  larger,
  ambiguous,
  changed,
  failed,
  fixed,
  missing,
  added,
  not_comparable
};
inline constexpr Verdict kVerdicts[] = {Verdict::same,   Verdict::faster,    Verdict::slower,  Verdict::smaller,
                                        Verdict::larger, Verdict::ambiguous, Verdict::changed, Verdict::failed,
                                        Verdict::fixed,  Verdict::missing,   Verdict::added,   Verdict::not_comparable};
std::string name_of(Verdict verdict);  // "not comparable", "loss changed", "new"
bool is_regression(Verdict verdict);

Verdict verdict_named(const std::string& name, const std::string& where);  // throws bad_input if there is none

struct CompareOptions {
  Thresholds thresholds;
  std::vector<std::string> metrics = compared_metrics();
  std::vector<Verdict> fail_on;                   // verdicts that fail a comparison, in addition to regressions
  std::vector<std::string> allow_different = {};  // fields in which the two sides of a point may differ
  bool has(const std::string& metric) const;
  // Memory and losses do not depend on the machine: memory is counted, and losses agree to rounding.
  bool needs_same_machine() const { return has("time") || has("energy"); }
  bool fails(Verdict verdict) const;
};

}  // namespace mbench::reports
