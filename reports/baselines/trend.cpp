#include "reports/baselines/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/records/record.h"
#include "reports/tables/markdown.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double before, double after) {
  return fmt::format("{:+.2f} %", (after / before - 1) * 100);
}

std::string number(double value, const std::string& unit) {
  return fmt::format("{:.{}f} {}", value, value >= 100 ? 1 : value >= 10 ? 2 : 3, unit);
}

std::string change_text(const Trend& trend, const ChangePoint& change) {
  return fmt::format("{} at {} ({}): {} to {}{}", percent(change.before, change.after),
                     trend.revisions[change.at], trend.dates[change.at], number(change.before, trend.unit),
                     number(change.after, trend.unit),
                     trend.metric == "time" ? fmt::format(", p = {:.2g}", change.p_value) : "");
}

std::string to_text(const Trend& trend) {
  std::string out = fmt::format("## {}\n\n", escape_markdown(trend.label));
  out += fmt::format("Point {} on {}, {} entries, {} ({}).\n\n", trend.id, escape_markdown(trend.machine),
                     trend.values.size(), trend.metric == "time" ? "median time" : "peak memory", trend.unit);
  out += fmt::format("    {}  {} to {}, {}\n\n", sparkline(trend.values),
                     number(trend.values.front(), trend.unit), number(trend.values.back(), trend.unit),
                     percent(trend.values.front(), trend.values.back()));
  if (trend.changes.empty())
    out +=
        trend.metric == "time" && trend.values.size() < kLeastForChangePoint
            ? fmt::format("Too few entries to tell a change from noise, need {}.\n\n", kLeastForChangePoint)
            : "No change of level found.\n\n";
  for (const ChangePoint& change : trend.changes)
    out += "- **" + escape_markdown(change_text(trend, change)) + "**\n";
  if (!trend.changes.empty()) out += "\n";
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
    entries.push_back(
        {{"date", trend.dates[i]}, {"revision", trend.revisions[i]}, {"value", trend.values[i]}});
  for (const ChangePoint& change : trend.changes)
    changes.push_back({{"date", trend.dates[change.at]},
                       {"revision", trend.revisions[change.at]},
                       {"before", change.before},
                       {"after", change.after},
                       {"p_value", change.p_value}});
  return {{"id", trend.id},     {"label", trend.label}, {"machine", trend.machine}, {"metric", trend.metric},
          {"unit", trend.unit}, {"entries", entries},   {"changes", changes}};
}

// Inside a gnuplot string in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("''") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out + "'";
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
  if (metric != "time" && metric != "memory")
    fail(ErrorKind::bad_input, "--metric", "unknown metric, got \"{}\", {}", metric,
         nearest_choice(metric, {"time", "memory"}));
  const std::vector<std::string> labels = labels_of(stored);
  std::vector<Trend> trends;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    Trend trend{stored[i].file.id,
                labels[i],
                stored[i].machine,
                metric,
                metric == "time" ? "ms" : "MiB",
                {},
                {},
                {},
                {}};
    for (const BaselineEntry& entry : stored[i].file.history) {
      std::optional<double> value;
      if (metric == "memory") value = entry.result.peak_memory_mib;
      if (metric == "time" && entry.result.iteration_ms) value = entry.result.iteration_ms->median;
      if (!value || !(*value > 0)) continue;
      trend.dates.push_back(entry.date);
      trend.revisions.push_back(entry.revision);
      trend.values.push_back(*value);
    }
    if (trend.values.empty()) continue;
    trend.changes = metric == "time" ? find_change_points(trend.values) : find_exact_changes(trend.values);
    trends.push_back(std::move(trend));
  }
  return trends;
}

std::string sparkline(const std::vector<double>& values) {
  static constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return "";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::string out;
  for (const double v : values) {
    const double height = *most > *least ? (v - *least) / (*most - *least) : 0;
    out += kHeights[std::min<int>(7, static_cast<int>(height * 8))];
  }
  return out;
}

std::string render_trends(const std::vector<Trend>& trends, const std::string& format) {
  if (format == "json") {
    Json all = Json::array();
    for (const Trend& trend : trends) all.push_back(to_json(trend));
    const Json out = {{"schema", "mbench.trend/1"}, {"trends", all}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (format != "md")
    fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", format,
         nearest_choice(format, {"md", "json"}));
  std::string out;
  for (const Trend& trend : trends) out += to_text(trend);
  return out;
}

std::string gnuplot_script(const std::vector<Trend>& trends, const std::string& file) {
  const std::size_t dot = file.rfind('.');
  const std::string kind = dot == std::string::npos ? "" : file.substr(dot + 1);
  const std::vector<std::string> kinds = {"svg", "png", "pdf"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    fail(ErrorKind::bad_input, "--plot",
         "no such kind of picture, got \"{}\", need a file that ends in svg, png or pdf", file);
  std::string out = fmt::format("set terminal {} size {}\nset output {}\n", kind == "pdf" ? "pdfcairo" : kind,
                                kind == "pdf" ? "24cm,14cm" : "1000,600", quoted(file));
  out +=
      "set encoding utf8\nset key outside below noenhanced\nset grid\nset xlabel 'entry, oldest first'\nset "
      "yrange [0:*]\n";
  if (!trends.empty())
    out += fmt::format("set ylabel '{} ({})'\n", trends.front().metric, trends.front().unit);
  std::string plots;
  for (std::size_t t = 0; t < trends.size(); ++t) {
    out += fmt::format("$d{} << EOD\n", t);
    for (std::size_t i = 0; i < trends[t].values.size(); ++i)
      out += fmt::format("{} {}\n", i + 1, trends[t].values[i]);
    out += "EOD\n";
    plots += fmt::format("{}$d{} using 1:2 with linespoints title {}", plots.empty() ? "" : ", ", t,
                         quoted(trends[t].label));
    for (const ChangePoint& change : trends[t].changes)
      out += fmt::format("set arrow from {0}, graph 0 to {0}, graph 1 nohead dashtype 2\n",
                         static_cast<double>(change.at) + 0.5);
  }
  return out + "plot " + plots + "\n";
}

}  // namespace mbench::reports
