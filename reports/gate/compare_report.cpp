#include "reports/gate/compare_report.h"

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
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
  static constexpr Verdict order[] = {Verdict::failed,    Verdict::changed,        Verdict::slower,
                                      Verdict::larger,    Verdict::not_comparable, Verdict::missing,
                                      Verdict::ambiguous, Verdict::added,          Verdict::fixed,
                                      Verdict::faster,    Verdict::smaller,        Verdict::same};
  return static_cast<int>(std::find(std::begin(order), std::end(order), verdict) - std::begin(order));
}

struct Row {
  const PointComparison* point;
  const MetricComparison* metric;
};

std::string percent(double ratio) {
  if (const std::string far = beyond_percent(ratio); !far.empty()) return far;
  const std::string text = fmt::format("{:+.1f} %", (ratio - 1) * 100);
  return text == "-0.0 %" || text == "+0.0 %"
             ? (ratio == 1 ? "0 %" : fmt::format("{:+.1g} %", (ratio - 1) * 100))
             : text;
}

std::string value_text(const MetricComparison& c, const std::optional<double>& value) {
  if (!value) return "";
  if (c.metric == "loss") return std::isfinite(*value) ? fmt::format("{:.5g}", *value) : "not finite";
  if (!std::isfinite(*value)) return "not finite";
  const int decimals = *value >= 1000 ? 0 : *value >= 100 ? 1 : *value >= 10 ? 2 : 3;
  return fmt::format("{} {}", fixed_text(*value, decimals), c.metric == "time" ? "ms" : "MiB");
}

std::string note_of(const Row& row) {
  std::string note = row.metric->reason;
  if (row.metric->metric == "time")
    for (const std::string& flag : row.point->flags) note += (note.empty() ? "" : "; ") + flag;
  return note;
}

Section section_of(const std::vector<Row>& rows, std::size_t most, const CompareOptions& options) {
  Section section;
  section.columns = {{"Point", "point", false},      {"Metric", "metric", false},
                     {"Baseline", "baseline", true}, {"New", "now", true},
                     {"Change", "change", true},     {"99 % interval", "interval", true},
                     {"Verdict", "verdict", false}};
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
    const std::string interval =
        c.interval ? fmt::format("{} to {}", percent(c.interval->low), percent(c.interval->high)) : "";
    section.rows.push_back({Cell{rows[i].point->label, {}}, Cell{c.metric, {}},
                            Cell{value_text(c, c.baseline), {}}, Cell{value_text(c, c.now), {}},
                            Cell{c.ratio ? percent(*c.ratio) : "", {}}, Cell{interval, {}}, last});
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

std::string headline(const Comparison& comparison, std::size_t failing) {
  const std::size_t all = comparison.points.size();
  if (comparison.regression()) return fmt::format("regression in {} of {} points", failing, all);
  if (failing) return fmt::format("no regression, but {} of {} points fail by --fail-on", failing, all);
  return fmt::format("no regression in {} points", all);
}

std::string how_judged(const CompareOptions& options) {
  const Thresholds& t = options.thresholds;
  std::string out = fmt::format("Compared: {}. Thresholds: time {:.4g} %, memory {:.4g} %, loss {}.\n\n",
                                fmt::join(options.metrics, ", "), t.time * 100, t.memory * 100,
                                t.loss ? fmt::format("{:.4g} %", *t.loss * 100) : "by precision");
  out +=
      "The threshold is the smallest change to be found. Time: the ratio of medians with its 99 % bootstrap "
      "interval. *same*: the "
      "interval excludes a change as large as the threshold. *slower*, *faster*: it excludes no change, "
      "holds the threshold or lies "
      "beyond it, and a rank test agrees (p < 0.01 after Holm's correction for the number of points). "
      "*ambiguous*: the "
      "interval holds both, or the samples are too few or drift too much to tell; measure more iterations. "
      "Memory is compared "
      "exactly, losses step by step.\n";
  return out;
}

std::string folded(const std::string& summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n\n{}\n</details>\n\n", summary, body);
}

std::string to_markdown_comparison(const Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  std::vector<Row> differing, same;
  Counts counts;
  std::size_t failing = 0;
  for (const PointComparison& point : comparison.points) {
    bool bad = false;
    for (const MetricComparison& c : point.metrics) {
      bad = bad || options.fails(c.verdict);
      ++counts.try_emplace(rank_of(c.verdict), c.verdict, 0).first->second.second;
      (c.verdict == Verdict::same ? same : differing).push_back({&point, &c});
    }
    failing += bad ? 1 : 0;
  }
  const auto by_rank = [](const Row& a, const Row& b) {
    return rank_of(a.metric->verdict) < rank_of(b.metric->verdict);
  };
  std::stable_sort(differing.begin(), differing.end(), by_rank);
  // Of what is the same, first what there is something to say about.
  std::stable_partition(same.begin(), same.end(), [](const Row& row) { return !note_of(row).empty(); });
  std::string out = fmt::format("## mbench: {}\n\n", headline(comparison, failing));
  const std::string bad = counts_text(counts, options, true), rest = counts_text(counts, options, false);
  out += fmt::format("{}{}{}.\n\n", bad.empty() ? "" : "**" + bad + "**",
                     bad.empty() || rest.empty() ? "" : "; ", rest);
  for (const std::string& change : comparison.environment_changes)
    out += "- " + escape_markdown(change) + "\n";
  if (!comparison.environment_changes.empty()) out += "\n";
  if (!differing.empty()) out += table_of(differing, options) + "\n";
  if (!same.empty())
    out += folded(fmt::format("{} metrics are the same", same.size()), table_of(same, options));
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
                         {"reason", c.reason.empty() ? Json(nullptr) : Json(c.reason)}});
    }
    points.push_back(
        {{"id", point.id}, {"label", point.label}, {"flags", point.flags}, {"metrics", std::move(metrics)}});
  }
  const Thresholds& t = comparison.options.thresholds;
  const Json out = {{"schema", "mbench.compare/1"},
                    {"regression", comparison.regression()},
                    {"fails", comparison.fails()},
                    {"thresholds", {{"time", t.time}, {"memory", t.memory}, {"loss", number(t.loss)}}},
                    {"environment_changes", comparison.environment_changes},
                    {"points", std::move(points)}};
  return dump_json(out);
}

}  // namespace

void check_comparison_format(const std::string& format) {
  static const std::vector<std::string> formats = {"md", "json", "junit"};
  if (std::find(formats.begin(), formats.end(), format) == formats.end())
    fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", format,
         nearest_choice(format, formats));
}

std::string render_comparison(const Comparison& comparison, const std::string& format) {
  check_comparison_format(format);
  if (format == "json") return to_json_comparison(comparison);
  if (format == "junit") return to_junit(comparison);
  return to_markdown_comparison(comparison);
}

}  // namespace mbench::reports
