// Whether NEW is slower, larger or less right than a baseline. Points are matched by id; each metric gets a
// verdict.
//
// Time. r = median(new) / median(baseline) of the samples, with its 99 % bootstrap interval, and the
// threshold t:
//   slower     the whole interval lies above 1 + t, and the rank test finds a difference (p < 0.01, corrected
//   by Holm
//              for the number of points)
//   faster     the whole interval lies below 1 / (1 + t), and the rank test agrees
//   same       the whole interval lies within [1 / (1 + t), 1 + t]
//   ambiguous  anything else: the interval crosses a threshold, the rank test disagrees, or a side has fewer
//   than 5
//              samples. Not a regression; more iterations narrow the interval.
// So a change as large as the threshold is as a rule ambiguous: to find 5 % reliably, ask for time=2%.
// Memory has no noise: larger if new > (1 + t) * baseline, smaller the other way round, same between, any
// change told. Simulated times have none either and are judged like memory. Losses must agree step by step
// within a relative tolerance by precision (f32 0.001, tf32 and fp16 0.01, bf16 0.02, fp8 0.05); beyond it
// the loss is "changed", which is a regression in either direction. A point that was ok and no longer is has
// failed: a regression. So is one that only ran out of memory, or could not be, and now crashes, hangs or
// computes something wrong. Not comparable: other hardware, device kind, precision, FLOP formula, or
// simulated against measured. Where that holds for the files as a whole, compare_results refuses them
// (bad_input).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/api/result.h"
#include "reports/statistics.h"

namespace mbench {

struct Thresholds {  // fractions: 0.05 is 5 %
  double time = 0.05, memory = 0.01;
  std::optional<double> loss;  // by precision unless set
};

// "time=5%": sets one of time, memory, loss; bad_input naming --threshold otherwise.
void set_threshold(Thresholds& thresholds, const std::string& text);

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
std::string name_of(Verdict verdict);  // "not comparable", "loss changed", "new"
bool is_regression(Verdict verdict);

struct MetricComparison {
  std::string metric;  // "time", "memory", "loss", or "point" for what concerns the whole of it
  Verdict verdict = Verdict::same;
  std::optional<double> baseline, now, ratio;  // ms, MiB; of a loss those of the step that differs most
  std::optional<Interval> interval;            // of the ratio
  std::optional<double> p_value;               // corrected
  std::string reason;
};

struct PointComparison {
  std::string id;
  std::string label;  // the fields in which the points differ
  std::vector<MetricComparison> metrics;
};

struct Comparison {
  std::vector<PointComparison> points;           // as in NEW, then those missing
  std::vector<std::string> environment_changes;  // "mpi: Open MPI 4.1.4, was MPICH 4.0"
  Thresholds thresholds;
  bool regression() const;
};

Comparison compare_results(const ResultFile& now, const ResultFile& baseline, const Thresholds& thresholds);

}  // namespace mbench
