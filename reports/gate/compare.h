// Whether NEW is slower, larger or less right than a baseline. Points are matched by id; each metric gets a verdict.
//
// Time is noisy. It is same, slower, faster or ambiguous by the rules in time_verdict.h, for the mean step as well as the median.
// Ambiguous is never a regression.
//
// Memory has no noise. It is larger if new >= (1 + t) * baseline, smaller the other way round, and same between; any change is
// reported. Simulated times have no noise either and are judged like memory.
//
// Energy is compared only on request. A simulated one has no noise. A measured one is a single figure for a run, without a spread:
// within the threshold it is the same, up to twice that ambiguous.
//
// Losses must agree step by step within a relative tolerance by precision and step (engine/point/tolerance.h). In f32 it is a tenth of
// that where layout, CPU, compiler and libraries are the same. Beyond it the loss is "changed", which is a regression in either
// direction: a faster wrong step is no gain.
//
// A point that was ok and no longer is has failed: a regression. So is one that only ran out of memory, or was impossible, and now
// crashes, hangs or computes something wrong.
//
// A metric that the baseline has and the new result lacks is missing, which fails only on request.
//
// Not comparable, with the reason: other hardware, device kind, model, precision or FLOP formula, or simulated against measured
// (comparable.h). Where nothing is comparable, compare_results refuses the files (bad_input). Where time is not compared, CPUs may
// differ: the allocator counts memory to the byte on any machine, and losses agree to rounding.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/gate/changed_parts.h"
#include "reports/gate/verdict.h"
#include "reports/records/mean_ratio.h"

namespace mbench::reports {

struct MetricComparison {
  std::string metric;  // "time", "memory", "loss", or "point" for what concerns the whole of it
  Verdict verdict = Verdict::same;
  // ms, MiB, J. For time the medians, for turns those of pairs; for a loss the values of the step that differs most.
  std::optional<double> baseline, now, ratio;
  std::optional<Interval> interval;  // of the ratio
  std::optional<double> p_value;     // corrected
  std::optional<MeanRatio> mean;     // of time: the mean step, without a warm-up; its p-value is corrected
  std::string reason;
  bool of_all_rounds = false;     // further measurements have been asked already
  bool is_budget = false;         // what all changes together may cost (budget.h)
  std::vector<PartChange> parts;  // of time and memory: what of it changed
};

struct PointComparison {
  std::string id;
  std::string label;  // the fields in which the points differ
  std::vector<MetricComparison> metrics;
  std::vector<std::string> flags;  // what disturbed the measurement: "new: throttled: ..." (flags.h)
  // What changed: bytes by axis; tensors at the peak; ranks, by their own computation and by their peaks.
  std::vector<PartChange> communication, tensors, ranks, memory_of_ranks;
  std::vector<std::string> terms;  // of the label: "tp 4", "seq 512"
};

struct Comparison {
  std::vector<PointComparison> points;                   // as in NEW, then those missing
  std::vector<std::string> environment_changes;          // "mpi: Open MPI 4.1.4, was MPICH 4.0"
  std::string machine, now_revision, baseline_revision;  // empty where unknown
  std::vector<std::string> accept;  // the commands that make NEW the baseline; whoever knows its files fills it in
  CompareOptions options;
  bool regression() const;
  bool fails() const;  // a regression, or a verdict that the options count as failure
  bool has(Verdict verdict) const;
};

// A further measurement of both sides.
struct Round {
  const ResultFile* now;
  const ResultFile* baseline;
};

// `again`: where the two sides of a point took turns in each round, all rounds are weighed together (turns_verdict.h).
Comparison compare_results(const ResultFile& now, const ResultFile& baseline, const CompareOptions& options,
                           const std::vector<Round>& again = {});

// `again` compares a second measurement of NEW with the same baseline. What is slower only in the first becomes ambiguous. For shared
// machines, where a neighbour rarely comes twice to the same point.
Comparison confirmed(Comparison first, const Comparison& again);

}  // namespace mbench::reports
