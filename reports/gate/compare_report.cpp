#include "reports/gate/compare_report.h"

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "reports/gate/headline.h"
#include "reports/gate/junit.h"
#include "reports/records/number_text.h"
#include "reports/tables/markdown.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// A comment of GitHub holds 65,536 characters; beyond this many rows a table says how many more there are.
constexpr std::size_t kMostRows = 100;

// The worst first.
int rank_of(Verdict verdict) {
  static constexpr Verdict order[] = {Verdict::failed,         Verdict::changed, Verdict::slower,    Verdict::larger,
                                      Verdict::not_comparable, Verdict::missing, Verdict::ambiguous, Verdict::added,
                                      Verdict::fixed,          Verdict::faster,  Verdict::smaller,   Verdict::same};
  return static_cast<int>(std::find(std::begin(order), std::end(order), verdict) - std::begin(order));
}

struct Row {
  const PointComparison* point;
  const MetricComparison* metric;
};

std::string percent_text(double ratio) {
  if (const std::string far = beyond_percent(ratio); !far.empty()) return far;
  const std::string text = fmt::format("{:+.1f} %", (ratio - 1) * 100);
  return text == "-0.0 %" || text == "+0.0 %" ? (ratio == 1 ? "0 %" : fmt::format("{:+.1g} %", (ratio - 1) * 100))
                                              : text;
}

std::string value_text(const MetricComparison& c, const std::optional<double>& value) {
  if (!value) return "";
  if (c.metric == "loss") return std::isfinite(*value) ? fmt::format("{:.5g}", *value) : "not finite";
  if (!std::isfinite(*value)) return "not finite";
  const int decimals = *value >= 1000 ? 0 : *value >= 100 ? 1 : *value >= 10 ? 2 : 3;
  return fmt::format("{} {}", fixed_text(*value, decimals),
                     c.metric.starts_with("time") ? "ms"
                     : c.metric == "energy"       ? "J"
                                                  : "MiB");
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{} to {}", percent_text(interval.low), percent_text(interval.high));
}

std::string change_text(const MetricComparison& c) {
  if (c.mean) return percent_text(c.mean->ratio);
  if (!c.ratio) return "";
  const bool bytes = c.metric.starts_with("memory") && c.now && c.baseline && *c.now != *c.baseline;
  return percent_text(*c.ratio) + (bytes ? fmt::format(" ({})", byte_change(*c.now, *c.baseline)) : "");
}

// Of the median beside the mean.
std::string median_text(const MetricComparison& c) {
  if (!c.mean || !c.ratio || !c.interval) return "";
  return fmt::format("{} ({})", percent_text(*c.ratio), interval_text(*c.interval));
}

std::string note_of(const Row& row) {
  std::string note = row.metric->reason;
  if (row.metric->metric == "time")  // once a point
    for (const std::string& flag : row.point->flags) note += (note.empty() ? "" : "; ") + flag;
  return note;
}

Section section_of(const std::vector<Row>& rows, std::size_t most, const CompareOptions& options) {
  Section section;
  section.columns = {{"Point", "point", false}, {"Metric", "metric", false}, {"Baseline", "baseline", true},
                     {"New", "now", true},      {"Change", "change", true},  {"99 % interval", "interval", true}};
  const bool medians =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.metric->mean.has_value(); });
  if (medians) section.columns.push_back({"Median's change", "median", true});
  section.columns.push_back({"Verdict", "verdict", false});
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const MetricComparison& c = *rows[i].metric;
    std::string verdict = name_of(c.verdict);
    if (options.fails(c.verdict)) verdict = fmt::format("**{}**", verdict);
    Cell last{verdict, {}};
    if (const std::string note = note_of(rows[i]); !note.empty()) {
      const auto it = std::find(section.footnotes.begin(), section.footnotes.end(), note);
      last.footnote = static_cast<int>(it - section.footnotes.begin()) + 1;
      if (it == section.footnotes.end()) section.footnotes.push_back(note);
    }
    const MeanRatio* mean = c.mean ? &*c.mean : nullptr;
    const std::string interval = mean ? interval_text(mean->interval) : c.interval ? interval_text(*c.interval) : "";
    std::vector<Cell> cells = {Cell{rows[i].point->label, {}},
                               Cell{c.metric, {}},
                               Cell{value_text(c, mean ? mean->baseline : c.baseline), {}},
                               Cell{value_text(c, mean ? mean->now : c.now), {}},
                               Cell{change_text(c), {}},
                               Cell{interval, {}}};
    if (medians) cells.push_back(Cell{median_text(c), {}});
    cells.push_back(last);
    section.rows.push_back(std::move(cells));
  }
  return section;
}

std::string table_of(const std::vector<Row>& rows, const CompareOptions& options) {
  std::string out = grid_to_markdown(section_of(rows, kMostRows, options));
  if (rows.size() > kMostRows)
    out += fmt::format("\n{} more rows; --format json lists them all.\n", rows.size() - kMostRows);
  return out;
}

using Counts = std::map<int, std::pair<Verdict, std::size_t>>;  // by rank

std::string counts_text(const Counts& counts, const CompareOptions& options, bool failing) {
  std::string text;
  for (const auto& [rank, entry] : counts)
    if (options.fails(entry.first) == failing)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.second, name_of(entry.first));
  return text;
}

std::string how_judged(const CompareOptions& options) {
  const Thresholds& t = options.thresholds;
  std::string out = fmt::format("Compared: {}. Thresholds: time {:.4g} %, memory {:.4g} %, loss {}.\n\n",
                                fmt::join(options.metrics, ", "), t.time * 100, t.memory * 100,
                                t.loss ? fmt::format("{:.4g} %", *t.loss * 100) : "by precision");
  out +=
      "The threshold is the smallest change to be found. Memory is compared exactly, losses step by step.\n\nTime: the "
      "ratios of mean steps and of medians, each with "
      "its 99 % interval. *same*: both intervals exclude a change as large as the threshold. *slower*, *faster*: an "
      "interval excludes no change, holds the threshold or lies beyond it, and its test agrees (p < 0.01 after Holm's "
      "correction for the number of points). The other does not contradict. *ambiguous*: the samples are too few, "
      "levels last within a run, or "
      "drift or stall too much. A single spike is no regression.\n";
  return out;
}

std::string folded(const std::string& summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n\n{}\n</details>\n\n", summary, body);
}

// A line for each metric of which parts changed, and one for each point whose communication did.
std::string what_changed(const Comparison& comparison) {
  std::string out;
  std::size_t lines = 0;
  const auto add = [&](const PointComparison& point, const std::string& what, const std::string& text) {
    if (!text.empty() && ++lines <= kMostRows)
      out += fmt::format("- {}, {}: {}\n", escape_markdown(point.label), what, text);
  };
  for (const PointComparison& point : comparison.points) {
    for (const MetricComparison& c : point.metrics)
      add(point, c.metric, parts_text(c.parts, c.metric.starts_with("memory")));
    add(point, "memory by tensor", parts_text(point.tensors, true));
    add(point, "memory by rank", parts_text(point.memory_of_ranks, true));
    add(point, "bytes communicated", parts_text(point.communication, true));
    add(point, "computation by rank", parts_text(point.ranks, false));
  }
  if (lines > kMostRows) out += fmt::format("- {} more; --format json lists them all\n", lines - kMostRows);
  return out;
}

Json mean_to_json(const std::optional<MeanRatio>& mean) {
  if (!mean) return nullptr;
  return {{"baseline", mean->baseline},
          {"new", mean->now},
          {"ratio", mean->ratio},
          {"interval", {mean->interval.low, mean->interval.high}},
          {"p_value", mean->p_value}};
}

Json parts_to_json(const std::vector<PartChange>& parts) {
  // Without the last digit, which is that of a product.
  const auto rounded = [](double value) { return std::stod(fmt::format("{:.15g}", value)); };
  Json out = Json::array();
  for (const PartChange& part : parts)
    out.push_back({{"part", part.name}, {"baseline", rounded(part.baseline)}, {"new", rounded(part.now)}});
  return out;
}

std::string to_markdown_comparison(const Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  std::vector<Row> differing, same;
  Counts counts;
  for (const PointComparison& point : comparison.points) {
    for (const MetricComparison& c : point.metrics) {
      ++counts.try_emplace(rank_of(c.verdict), c.verdict, 0).first->second.second;
      (c.verdict == Verdict::same ? same : differing).push_back({&point, &c});
    }
  }
  const auto by_rank = [](const Row& a, const Row& b) {
    return rank_of(a.metric->verdict) < rank_of(b.metric->verdict);
  };
  std::stable_sort(differing.begin(), differing.end(), by_rank);
  // Of what is the same, first what there is something to say about.
  std::stable_partition(same.begin(), same.end(), [](const Row& row) { return !note_of(row).empty(); });
  const std::string subject = subject_of(comparison);
  std::string out =
      "## mbench: " + escape_markdown(headline_of(comparison) + (subject.empty() ? "" : "; " + subject)) + "\n\n";
  const std::string bad = counts_text(counts, options, true), rest = counts_text(counts, options, false);
  out +=
      fmt::format("{}{}{}.\n\n", bad.empty() ? "" : "**" + bad + "**", bad.empty() || rest.empty() ? "" : "; ", rest);
  for (const std::string& change : comparison.environment_changes) out += "- " + escape_markdown(change) + "\n";
  if (!comparison.environment_changes.empty()) out += "\n";
  if (!differing.empty()) out += table_of(differing, options) + "\n";
  if (const std::string parts = what_changed(comparison); !parts.empty())
    out += "What changed, by part:\n\n" + parts + "\n";
  if (comparison.fails() && !comparison.accept.empty()) {
    out += "If this is meant, accept it:\n\n";
    for (const std::string& command : comparison.accept) out += "    " + command + "\n";
    out += "\n";
  }
  if (!same.empty())
    out += folded(same.size() == 1 ? "1 metric is the same" : fmt::format("{} metrics are the same", same.size()),
                  table_of(same, options));
  return out + folded("How this was judged", how_judged(options));
}

std::string to_json_comparison(const Comparison& comparison) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json points = Json::array();
  for (const PointComparison& point : comparison.points) {
    Json metrics = Json::array();
    for (const MetricComparison& c : point.metrics) {
      Json interval = nullptr;
      if (c.interval) interval = {c.interval->low, c.interval->high};
      metrics.push_back({{"metric", c.metric},
                         {"verdict", name_of(c.verdict)},
                         {"regression", is_regression(c.verdict)},
                         {"fails", comparison.options.fails(c.verdict)},
                         {"baseline", number(c.baseline)},
                         {"new", number(c.now)},
                         {"ratio", number(c.ratio)},
                         {"interval", interval},
                         {"p_value", number(c.p_value)},
                         {"mean", mean_to_json(c.mean)},
                         {"parts", parts_to_json(c.parts)},
                         {"reason", c.reason.empty() ? Json(nullptr) : Json(c.reason)}});
    }
    points.push_back(
        {{"id", point.id},
         {"label", point.label},
         {"flags", point.flags},
         {"communication", parts_to_json(point.communication)},
         {"tensors", parts_to_json(point.tensors)},
         {"ranks", {{"compute_ms", parts_to_json(point.ranks)}, {"memory_mib", parts_to_json(point.memory_of_ranks)}}},
         {"metrics", std::move(metrics)}});
  }
  const Thresholds& t = comparison.options.thresholds;
  const Json out = {
      {"schema", "mbench.compare/1"},
      {"headline", headline_of(comparison)},
      {"machine", comparison.machine},
      {"revision", comparison.now_revision},
      {"baseline_revision", comparison.baseline_revision},
      {"regression", comparison.regression()},
      {"fails", comparison.fails()},
      {"thresholds", {{"time", t.time}, {"memory", t.memory}, {"loss", number(t.loss)}, {"energy", t.energy}}},
      {"environment_changes", comparison.environment_changes},
      {"points", std::move(points)}};
  return dump_json(out);
}

}  // namespace

void check_comparison_format(const std::string& format) {
  static const std::vector<std::string> formats = {"md", "json", "junit"};
  if (std::find(formats.begin(), formats.end(), format) == formats.end())
    fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", format, nearest_choice(format, formats));
}

std::string render_comparison(const Comparison& comparison, const std::string& format) {
  check_comparison_format(format);
  if (format == "json") return to_json_comparison(comparison);
  if (format == "junit") return to_junit(comparison);
  return to_markdown_comparison(comparison);
}

}  // namespace mbench::reports
