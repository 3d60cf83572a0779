#include "reports/compare_report.h"

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/markdown.h"

namespace mbench {
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
  const std::string text = fmt::format("{:+.1f} %", (ratio - 1) * 100);
  return text == "-0.0 %" || text == "+0.0 %"
             ? (ratio == 1 ? "0 %" : fmt::format("{:+.1g} %", (ratio - 1) * 100))
             : text;
}

std::string value_text(const MetricComparison& c, const std::optional<double>& value) {
  if (!value) return "";
  if (c.metric == "loss") return fmt::format("{:.5g}", *value);
  const int decimals = *value >= 1000 ? 0 : *value >= 100 ? 1 : *value >= 10 ? 2 : 3;
  return fmt::format("{:.{}f} {}", *value, decimals, c.metric == "time" ? "ms" : "MiB");
}

Section section_of(const std::vector<Row>& rows, std::size_t most) {
  Section section;
  section.columns = {{"Point", "point", false},      {"Metric", "metric", false},
                     {"Baseline", "baseline", true}, {"New", "now", true},
                     {"Change", "change", true},     {"99 % interval", "interval", true},
                     {"Verdict", "verdict", false}};
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const MetricComparison& c = *rows[i].metric;
    std::string verdict = name_of(c.verdict);
    if (is_regression(c.verdict)) verdict = fmt::format("**{}**", verdict);
    Cell last{verdict, {}};
    if (!c.reason.empty()) {
      const auto it = std::find(section.footnotes.begin(), section.footnotes.end(), c.reason);
      last.footnote = static_cast<int>(it - section.footnotes.begin()) + 1;
      if (it == section.footnotes.end()) section.footnotes.push_back(c.reason);
    }
    const std::string interval =
        c.interval ? fmt::format("{} to {}", percent(c.interval->low), percent(c.interval->high)) : "";
    section.rows.push_back({Cell{rows[i].point->label, {}}, Cell{c.metric, {}},
                            Cell{value_text(c, c.baseline), {}}, Cell{value_text(c, c.now), {}},
                            Cell{c.ratio ? percent(*c.ratio) : "", {}}, Cell{interval, {}}, last});
  }
  return section;
}

std::string table_of(const std::vector<Row>& rows) {
  std::string out = grid_to_markdown(section_of(rows, kMostRows));
  if (rows.size() > kMostRows)
    out += fmt::format("\n{} more rows; --format json lists them all.\n", rows.size() - kMostRows);
  return out;
}

std::string counts_text(const std::map<int, std::pair<Verdict, std::size_t>>& counts, bool regressions) {
  std::string text;
  for (const auto& [rank, entry] : counts)
    if (is_regression(entry.first) == regressions)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.second, name_of(entry.first));
  return text;
}

std::string to_markdown_comparison(const Comparison& comparison) {
  std::vector<Row> differing, same;
  std::map<int, std::pair<Verdict, std::size_t>> counts;  // by rank
  std::size_t regressed = 0;
  for (const PointComparison& point : comparison.points) {
    bool bad = false;
    for (const MetricComparison& c : point.metrics) {
      bad = bad || is_regression(c.verdict);
      auto& count = counts.try_emplace(rank_of(c.verdict), c.verdict, 0).first->second;
      ++count.second;
      (c.verdict == Verdict::same && c.reason.empty() ? same : differing).push_back({&point, &c});
    }
    regressed += bad ? 1 : 0;
  }
  std::stable_sort(differing.begin(), differing.end(), [](const Row& a, const Row& b) {
    return rank_of(a.metric->verdict) < rank_of(b.metric->verdict);
  });
  std::string out =
      regressed
          ? fmt::format("## mbench: regression in {} of {} points\n\n", regressed, comparison.points.size())
          : fmt::format("## mbench: no regression in {} points\n\n", comparison.points.size());
  const std::string bad = counts_text(counts, true), rest = counts_text(counts, false);
  out += fmt::format("{}{}{}.\n\n", bad.empty() ? "" : "**" + bad + "**",
                     bad.empty() || rest.empty() ? "" : "; ", rest);
  for (const std::string& change : comparison.environment_changes)
    out += "- " + escape_markdown(change) + "\n";
  if (!comparison.environment_changes.empty()) out += "\n";
  if (!differing.empty()) out += table_of(differing) + "\n";
  if (!same.empty())
    out += fmt::format("<details><summary>{} metrics are the same</summary>\n\n{}\n</details>\n\n",
                       same.size(), table_of(same));
  const Thresholds& t = comparison.thresholds;
  out += fmt::format(
      "Thresholds: time {:.4g} %, memory {:.4g} %, loss {}. Time: ratio of medians with its bootstrap "
      "interval, and a "
      "rank test corrected for the number of points; slower means that the whole interval lies beyond the "
      "threshold, "
      "ambiguous that it crosses it.\n",
      t.time * 100, t.memory * 100, t.loss ? fmt::format("{:.4g} %", *t.loss * 100) : "by precision");
  return out;
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
                         {"baseline", number(c.baseline)},
                         {"new", number(c.now)},
                         {"ratio", number(c.ratio)},
                         {"interval", interval},
                         {"p_value", number(c.p_value)},
                         {"reason", c.reason.empty() ? Json(nullptr) : Json(c.reason)}});
    }
    points.push_back({{"id", point.id}, {"label", point.label}, {"metrics", std::move(metrics)}});
  }
  const Thresholds& t = comparison.thresholds;
  const Json out = {{"schema", "mbench.compare/1"},
                    {"regression", comparison.regression()},
                    {"thresholds", {{"time", t.time}, {"memory", t.memory}, {"loss", number(t.loss)}}},
                    {"environment_changes", comparison.environment_changes},
                    {"points", std::move(points)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string render_comparison(const Comparison& comparison, const std::string& format) {
  if (format == "md") return to_markdown_comparison(comparison);
  if (format == "json") return to_json_comparison(comparison);
  fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", format,
       nearest_choice(format, {"md", "json"}));
}

}  // namespace mbench
