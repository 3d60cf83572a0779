#include "reports/baselines/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "reports/plots/sparkline.h"
#include "reports/records/number_text.h"
#include "reports/records/record.h"
#include "reports/records/slow_steps.h"
#include "reports/tables/markdown.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double before, double after) {
  const std::string far = beyond_percent(after / before);
  return far.empty() ? fmt::format("{:+.2f} %", (after / before - 1) * 100) : far;
}

std::string number(double value, const std::string& unit) {
  return fmt::format("{} {}", fixed_text(value, value >= 100 ? 1 : value >= 10 ? 2 : 3), unit);
}

std::string change_text(const Trend& trend, const ChangePoint& change) {
  return fmt::format("{} at {} ({}): {} to {}{}", percent(change.before, change.after), trend.revisions[change.at],
                     trend.dates[change.at], number(change.before, trend.unit), number(change.after, trend.unit),
                     trend.has_noise() ? fmt::format(", p = {:.2g}", change.p_value) : "");
}

// "drifts +1.0 % an entry since rev1 (2026-01-01): 100.0 ms to 114.0 ms", and what speaks for a line and for a step.
std::string drift_reported(const Trend& trend) {
  const Drift& d = *trend.line;
  std::string out = fmt::format("- **drifts {:.2g} % an entry since {} ({}): {} to {}, {}**\n", d.per_entry * 100,
                                escape_markdown(trend.revisions[d.since]), trend.dates[d.since],
                                number(d.start, trend.unit), number(d.end, trend.unit), percent(d.start, d.end));
  out += fmt::format(
      "- the line explains {:.0f} % of the variance, BIC {:.1f}; the best step, {} at {}, BIC {:.1f}; one level, BIC "
      "{:.1f}. Less is better\n",
      d.explained * 100, d.line_bic, percent(d.step.before, d.step.after), escape_markdown(trend.revisions[d.step.at]),
      d.step_bic, d.level_bic);
  return out + (d.instead_of_steps
                    ? "- so no single revision is to blame: compare with `--against oldest`, or hold a `--budget`\n"
                    : "- so steps explain it as well as a line\n");
}

// What speaks for the steps that are named, and for a line and for one level in their place.
std::string steps_against_line(const Trend& trend) {
  const Drift& d = *trend.line;
  return fmt::format(
      "- the step{} BIC {:.1f}; a line of {:+.2g} % an entry since {}, which explains {:.0f} % of the variance, BIC "
      "{:.1f}; one level, BIC {:.1f}. Less is better\n",
      trend.changes.size() == 1 ? "," : "s,", d.step_bic, d.per_entry * 100, escape_markdown(trend.revisions[d.since]),
      d.explained * 100, d.line_bic, d.level_bic);
}

std::string to_text(const Trend& trend) {
  std::string out = fmt::format("## {}\n\n", escape_markdown(trend.label));
  out += fmt::format("Point {} on {}, {} {}, {} ({}).\n\n", trend.id, escape_markdown(trend.machine),
                     trend.values.size(), trend.values.size() == 1 ? "entry" : "entries",
                     trend.metric == "time"     ? "mean step"
                     : trend.metric == "median" ? "median step"
                                                : "peak memory",
                     trend.unit);
  out += fmt::format("    {}  {} to {}, {}\n\n", sparkline(trend.values), number(trend.values.front(), trend.unit),
                     number(trend.values.back(), trend.unit), percent(trend.values.front(), trend.values.back()));
  if (trend.drifts()) out += drift_reported(trend);
  if (trend.changes.empty() && !trend.drifts())
    out += trend.has_noise() && trend.values.size() < kLeastForChangePoint
               ? fmt::format("Too few entries to separate a change from noise, need {}.\n\n", kLeastForChangePoint)
               : "No change of level found.\n\n";
  for (const ChangePoint& change : trend.changes) out += "- **" + escape_markdown(change_text(trend, change)) + "**\n";
  if (!trend.changes.empty() && trend.line && !trend.drifts()) out += steps_against_line(trend);
  if (!trend.changes.empty() || trend.drifts()) out += "\n";
  Section section;
  section.columns = {{"Date", "date", false},
                     {"Revision", "revision", false},
                     {trend.metric, trend.metric, true},
                     {"Change", "change", true}};
  for (std::size_t i = 0; i < trend.values.size(); ++i)
    section.rows.push_back({Cell{trend.dates[i], {}}, Cell{trend.revisions[i], {}},
                            Cell{number(trend.values[i], trend.unit), {}},
                            Cell{i ? percent(trend.values[i - 1], trend.values[i]) : "", {}}});
  return out + grid_to_markdown(section) + "\n";
}

Json to_json(const Trend& trend) {
  Json entries = Json::array(), changes = Json::array();
  for (std::size_t i = 0; i < trend.values.size(); ++i)
    entries.push_back({{"date", trend.dates[i]}, {"revision", trend.revisions[i]}, {"value", trend.values[i]}});
  for (const ChangePoint& change : trend.changes)
    changes.push_back({{"date", trend.dates[change.at]},
                       {"revision", trend.revisions[change.at]},
                       {"before", change.before},
                       {"after", change.after},
                       {"p_value", change.p_value}});
  Json line = nullptr;
  if (const auto& d = trend.line)
    line = {
        {"date", trend.dates[d->since]},
        {"revision", trend.revisions[d->since]},
        {"per_entry", d->per_entry},
        {"start", d->start},
        {"end", d->end},
        {"explained", d->explained},
        {"line_bic", d->line_bic},
        {"step_bic", d->step_bic},
        {"level_bic", d->level_bic},
        {"step", {{"revision", trend.revisions[d->step.at]}, {"before", d->step.before}, {"after", d->step.after}}}};
  return {{"id", trend.id},         {"label", trend.label}, {"machine", trend.machine},
          {"metric", trend.metric}, {"unit", trend.unit},   {"entries", entries},
          {"changes", changes},     {"line", line},         {"drift", trend.drifts() ? line : Json(nullptr)}};
}

}  // namespace

std::vector<std::string> labels_of(const std::vector<StoredBaseline>& stored) {
  std::vector<Record> records;
  for (const StoredBaseline& s : stored) {
    PointResult bare;
    bare.point = s.file.newest().result.point;
    bare.id = s.file.id;
    records.emplace_back(bare);
  }
  std::vector<const Record*> all;
  for (const Record& record : records) all.push_back(&record);
  std::vector<std::string> fields = swept_fields(nullptr, all);
  if (fields.empty()) fields = {"model"};
  std::vector<std::string> labels;
  for (const Record& record : records) {
    std::string label;
    for (const std::string& field : fields)
      label += fmt::format("{}{} {}", label.empty() ? "" : ", ", field, record.text(field));
    labels.push_back(std::move(label));
  }
  return labels;
}

std::vector<Trend> trends_of(const std::vector<StoredBaseline>& stored, const std::string& metric) {
  if (metric != "time" && metric != "median" && metric != "memory" && metric != "energy")
    fail(ErrorKind::bad_input, "--metric", "unknown metric, got \"{}\", {}", metric,
         nearest_choice(metric, {"time", "median", "memory", "energy", "checks"}));
  const char* unit = metric == "memory" ? "MiB" : metric == "energy" ? "J" : "ms";
  const std::vector<std::string> labels = labels_of(stored);
  std::vector<Trend> trends;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    Trend trend{stored[i].file.id, labels[i], stored[i].machine, metric, unit, {}, {}, {}, {}, {}};
    for (const BaselineEntry& entry : stored[i].file.history) {
      std::optional<double> value;
      if (metric == "memory") value = entry.result.peak_memory_mib;
      if (metric == "energy") value = entry.result.energy_joules;
      if (metric == "median" && entry.result.iteration_ms) value = entry.result.iteration_ms->median;
      if (metric == "time" && entry.result.iteration_ms && entry.result.iteration_ms->min > 0)
        value = paid_mean(entry.result.iteration_ms->samples);
      if (!value || !(*value > 0)) continue;
      trend.dates.push_back(entry.date);
      trend.revisions.push_back(entry.revision);
      trend.values.push_back(*value);
    }
    if (trend.values.empty()) continue;
    trend.changes = trend.has_noise() ? find_change_points(trend.values) : find_exact_changes(trend.values);
    if (trend.has_noise()) trend.line = find_drift(trend.values, trend.changes);
    if (trend.drifts() && trend.line->instead_of_steps) trend.changes.clear();
    trends.push_back(std::move(trend));
  }
  return trends;
}

std::string render_trends(const std::vector<Trend>& trends, const std::string& format) {
  if (format == "json") {
    Json all = Json::array();
    for (const Trend& trend : trends) all.push_back(to_json(trend));
    const Json out = {{"schema", "mbench.trend/1"}, {"trends", all}};
    return dump_json(out);
  }
  if (format != "md")
    fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", format,
         nearest_choice(format, {"md", "json"}));
  std::string out;
  for (const Trend& trend : trends) out += to_text(trend);
  return out;
}

Plot trend_plot(const std::vector<Trend>& trends) {
  check(!trends.empty(), "trend_plot", "no trends, need at least one");
  const std::string& metric = trends.front().metric;
  Plot plot;
  plot.name = "trend-" + trends.front().metric;
  plot.shape = PlotShape::history;
  plot.title = metric == "time"     ? "Mean step of each entry"
               : metric == "median" ? "Median step of each entry"
                                    : "Peak memory of each entry";
  plot.x_label = "entry, oldest first";
  plot.y_label = fmt::format("{} ({})", trends.front().metric, trends.front().unit);
  plot.is_broad = true;
  for (const Trend& trend : trends) {
    PlotSeries series{trend.label, {}};
    for (std::size_t i = 0; i < trend.values.size(); ++i)
      series.points.push_back({static_cast<double>(i + 1), trend.values[i]});
    plot.series.push_back(std::move(series));
    // Between the last entry of the old level and the first of the new.
    for (const ChangePoint& change : trend.changes) plot.changes.push_back(static_cast<double>(change.at) + 0.5);
  }
  if (!plot.changes.empty()) plot.heading = "dashed: where a level changed";
  return plot;
}

}  // namespace mbench::reports
