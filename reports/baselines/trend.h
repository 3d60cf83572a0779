// A stored point over time: what was measured at each revision, and a line of text characters. Also where the level changed
// (change_point.h), and whether it drifts instead (drift.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/baselines/baseline_store.h"
#include "reports/baselines/change_point.h"
#include "reports/baselines/drift.h"
#include "reports/plots/plot.h"

namespace mbench::reports {

struct Trend {
  // metric: time (the mean step of each entry, without a warm-up and a single spike), median, memory
  std::string id, label, machine, metric;
  std::string unit;
  std::vector<std::string> dates, revisions;
  std::vector<double> values;        // of the entries that have one, oldest first
  std::vector<ChangePoint> changes;  // none where a line explains the entries better
  std::optional<Drift> line;         // the evidence for a line, of as many entries as it needs

  bool drifts() const { return line && line->drifts; }
  bool has_noise() const { return metric != "memory"; }
};

// One for each stored point that has at least one value. Throws bad_input for another metric.
std::vector<Trend> trends_of(const std::vector<StoredBaseline>& stored, const std::string& metric);

// `format`: md (for people) or json.
std::string render_trends(const std::vector<Trend>& trends, const std::string& format);

// All of them in one picture: a line each, over the number of the entry. At least one, of one metric.
Plot trend_plot(const std::vector<Trend>& trends);

// The fields in which stored points differ, as a label for each.
std::vector<std::string> labels_of(const std::vector<StoredBaseline>& stored);

}  // namespace mbench::reports
