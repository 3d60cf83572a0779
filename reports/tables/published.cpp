#include "reports/tables/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/point/bundles.h"
#include "engine/point/fields.h"
#include "engine/point/outcome.h"
#include "reports/tables/build_table.h"
#include "reports/tables/builtin_tables.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// Pairs published closer than this may come out either way.
constexpr double kApart = 0.03;

// How the figures of one metric are printed, all alike: as many decimals as were published.
struct Format {
  std::string header, scale;  // "MFU (%)", "*100"
  int decimals = 0;
  bool thousands = false;
};

int decimals_of(double x) {
  const std::string text = fmt::format("{:.7g}", x);
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos || text.find('e') != std::string::npos) return 0;
  return std::min<int>(4, static_cast<int>(text.size() - dot - 1));
}

Format format_of(const std::string& metric, const Published& published) {
  Format format;
  format.header = metric;
  double scale = 1;
  if (const MetricFormat* usual = find_metric_format(metric)) {
    const CellText::Part part = CellText::parse(usual->text, metric).parts().front();
    format.header = usual->header;
    format.thousands = part.thousands;
    scale = part.scale;
  }
  if (scale != 1) format.scale = fmt::format("*{}", scale);
  if (scale == 100) format.header += " (%)";
  for (const PublishedRow& row : published.rows)
    for (const PublishedFigure& figure : row.figures)
      if (figure.metric == metric) {
        format.decimals = std::max(format.decimals, figure.stddev ? decimals_of(*figure.stddev * scale) : 0);
        for (const double run : figure.runs.empty() ? std::vector{figure.mean} : figure.runs)
          format.decimals = std::max(format.decimals, decimals_of(run * scale));
      }
  return format;
}

ColumnDeclaration column(const std::string& header, const std::string& name, const std::string& text) {
  ColumnDeclaration column;
  column.header = header;
  column.name = name;
  column.lines.push_back(CellText::parse(text, name));
  return column;
}

// "simulated" or "measured", as is true of the points that ran; both where both did. Of points that did not
// run, what they would have been.
std::string how_come_by(const std::vector<const Record*>& records) {
  const bool any_ran = std::any_of(records.begin(), records.end(),
                                   [](const Record* record) { return record->outcome() == Outcome::ok; });
  bool simulated = false, measured = false;
  for (const Record* record : records)
    if (!any_ran || record->outcome() == Outcome::ok) (record->simulated() ? simulated : measured) = true;
  return simulated && measured ? "simulated or measured" : simulated ? "simulated" : "measured";
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", fraction * 100);
}

// What all rows of a section share: every field but the strategy and what it bundles.
std::string section_of(const Record& record) {
  const std::vector<std::string>& bundled = bundled_keys();
  std::string key;
  for (const std::string& field : point_keys())
    if (field != "strategy" && std::find(bundled.begin(), bundled.end(), field) == bundled.end())
      key += record.json().at(field).dump(-1, ' ', false, Json::error_handler_t::replace) + "|";
  return key;
}

const PublishedFigure* figure_of(const PublishedRow& row, const std::string& metric) {
  const auto found = std::find_if(row.figures.begin(), row.figures.end(),
                                  [&](const PublishedFigure& f) { return f.metric == metric; });
  return found == row.figures.end() ? nullptr : &*found;
}

}  // namespace

TableDeclaration published_table(const Published& published, const std::vector<const Record*>& records,
                                 const std::vector<std::string>& swept) {
  TableDeclaration declaration;
  declaration.name = "published";
  declaration.rows.push_back(row_of("*"));
  if (std::find(swept.begin(), swept.end(), "strategy") != swept.end())
    for (const TableDeclaration& usual : builtin_tables())
      if (usual.name == "strategies") {
        declaration.sections = usual.sections;
        declaration.rows = usual.rows;
        declaration.labels = usual.labels;
      }
  const std::string ours = how_come_by(records);
  for (const std::string& metric : published.metrics) {
    const Format f = format_of(metric, published);
    const auto value = [&](const std::string& name) {
      return fmt::format("{{{}{}:{}{}}}", name, f.scale, f.thousands ? "," : "", f.decimals);
    };
    const auto spread = [&](const std::string& name) { return "[ +/- " + value(name + ".stddev") + "]"; };
    const auto range = [&](const std::string& name) {
      return "[ (" + value(name + ".least") + " to " + value(name + ".most") + ")]";
    };
    const std::string theirs = "published." + metric;
    declaration.columns.push_back(
        column(f.header + ": published", theirs, value(theirs) + spread(theirs) + range(theirs)));
    // A simulated step takes the same time again and again: its spread says nothing.
    const bool has_spread = ours == "measured" && (metric == "iteration_ms" || metric == "samples_per_s");
    const std::string header = metric == "parameters" ? "counted" : ours;
    declaration.columns.push_back(column(header, metric, value(metric) + (has_spread ? spread(metric) : "")));
    declaration.columns.push_back(column("error", "error." + metric, "{error." + metric + "*100:+1} %"));
  }
  declaration.note = "Published: " + published.source + ". Error: (" + ours + " - published) / published." +
                     (published.about.empty() ? "" : " " + published.about) +
                     (published.flags.empty() ? "" : fmt::format(" Flags: {}.", fmt::join(published.flags, ", ")));
  return declaration;
}

const MetricFormat* find_published_format(const std::string& name) {
  if (!name.starts_with("published.") && !name.starts_with("error.")) return nullptr;
  static const std::vector<MetricFormat> formats = [] {
    std::vector<MetricFormat> list;
    for (const std::string& metric : published_metrics()) {
      const Format f = format_of(metric, {});
      const std::string theirs = "published." + metric;
      list.push_back({theirs, f.header + ": published", "{" + theirs + f.scale + (f.thousands ? ":,0}" : "}")});
      list.push_back({"error." + metric, f.header + ": error", "{error." + metric + "*100:+1} %"});
    }
    return list;
  }();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.name == name; });
  return found == formats.end() ? nullptr : &*found;
}

PublishedSummary::PublishedSummary(const Published& published, const std::vector<const Record*>& records,
                                   const std::vector<Record>& all) {
  for (const std::string& metric : published.metrics) compare(metric, published, records);
  count_rows(published, records);
  std::vector<bool> has_point(published.rows.size());
  for (const Record& record : all)
    if (const auto row = record.published_row()) has_point[*row] = true;
  absent_ = static_cast<int>(std::count(has_point.begin(), has_point.end(), false));
  const auto on_cpu = [](const Record* record) { return record->json().at("device") == "cpu"; };
  if (std::all_of(records.begin(), records.end(), on_cpu)) simulated_by_ = published.machine;
}

void PublishedSummary::compare(const std::string& metric, const Published& published,
                               const std::vector<const Record*>& records) {
  struct Compared {
    double theirs, ours;
  };
  std::map<std::string, std::vector<Compared>> sections;
  Figures& figures = figures_[metric];
  for (const Record* record : records) {
    const auto row = record->published_row();
    const PublishedFigure* figure = row ? figure_of(published.rows[*row], metric) : nullptr;
    const Json error = record->value("error." + metric);
    if (figure) ++figures.published;
    if (!figure || !figure->doubt.empty() || !error.is_number()) continue;
    const double off = std::abs(error.get<double>());
    ++figures.rows;
    figures.sum += off;
    figures.max = std::max(figures.max, off);
    sections[section_of(*record)].push_back({figure->mean, record->value(metric).get<double>()});
  }
  for (const auto& [key, section] : sections)
    for (std::size_t i = 0; i < section.size(); ++i)
      for (std::size_t j = i + 1; j < section.size(); ++j) {
        const Compared &a = section[i], &b = section[j];
        if (a.theirs == b.theirs) continue;  // no order was published
        const bool ordered = (a.theirs < b.theirs) == (a.ours < b.ours) && a.ours != b.ours;
        const bool apart = std::abs(a.theirs - b.theirs) > kApart * std::min(a.theirs, b.theirs);
        ++figures.pairs;
        figures.ordered += ordered;
        figures.apart += apart;
        figures.apart_and_ordered += apart && ordered;
      }
}

void PublishedSummary::count_rows(const Published& published, const std::vector<const Record*>& records) {
  for (const Record* record : records) {
    const auto index = record->published_row();
    if (!index) continue;
    const PublishedRow& row = published.rows[*index];
    const bool doubted = !row.doubt.empty() || std::any_of(row.figures.begin(), row.figures.end(),
                                                           [](const auto& f) { return !f.doubt.empty(); });
    doubted_ += doubted;
    const bool ran_or_full = record->outcome() == Outcome::ok || record->outcome() == Outcome::oom;
    if (row.oom && row.doubt.empty() && ran_or_full) {
      ++oom_;
      oom_here_ += record->outcome() == Outcome::oom;
    } else if (record->outcome() != Outcome::ok) {
      ++failed_[outcome_text(record->outcome())][record->reason()];
    }
  }
}

void PublishedSummary::add(const PublishedSummary& other) {
  for (const auto& [metric, theirs] : other.figures_) {
    Figures& mine = figures_[metric];
    mine.published += theirs.published;
    mine.rows += theirs.rows;
    mine.sum += theirs.sum;
    mine.max = std::max(mine.max, theirs.max);
    mine.pairs += theirs.pairs;
    mine.ordered += theirs.ordered;
    mine.apart += theirs.apart;
    mine.apart_and_ordered += theirs.apart_and_ordered;
  }
  for (const auto& [outcome, reasons] : other.failed_)
    for (const auto& [reason, rows] : reasons) failed_[outcome][reason] += rows;
  if (simulated_by_.empty()) simulated_by_ = other.simulated_by_;
  doubted_ += other.doubted_;
  absent_ += other.absent_;
  oom_ += other.oom_;
  oom_here_ += other.oom_here_;
}

std::vector<std::string> PublishedSummary::lines() const {
  std::vector<std::string> lines;
  for (const std::string& metric : published_metrics()) {
    const auto found = figures_.find(metric);
    if (found == figures_.end()) continue;
    const Figures& f = found->second;
    const MetricFormat* usual = find_metric_format(metric);
    std::string line =
        fmt::format("{}: {} of {} published figures compared", usual ? usual->header : metric, f.rows, f.published);
    if (f.rows > 0)
      line += fmt::format(", mean absolute error {}, largest {}", percent(f.sum / f.rows), percent(f.max));
    if (f.pairs > 0) line += fmt::format("; {} of {} pairs of strategies in the published order", f.ordered, f.pairs);
    if (f.apart > 0)
      line +=
          fmt::format("; of those that differ by more than 3 % as published {} of {}", f.apart_and_ordered, f.apart);
    lines.push_back(line + ".");
  }
  if (oom_ > 0)
    lines.push_back(
        fmt::format("Published as out of memory: {} of {} rows are out of memory here too.", oom_here_, oom_));
  for (const auto& [outcome, reasons] : failed_) {
    int rows = 0;
    std::string why;
    for (const auto& [reason, n] : reasons) {
      rows += n;
      why += fmt::format("{}{} x {}", why.empty() ? "" : "; ", n, reason.empty() ? "no reason given" : reason);
    }
    lines.push_back(fmt::format("Published, but {} here: {} ({}).", outcome, rows, why));
  }
  if (!simulated_by_.empty())
    lines.push_back(fmt::format("Published of other devices than this CPU: --on {} simulates them.", simulated_by_));
  if (doubted_ > 0)
    lines.push_back(fmt::format("Rows with figures that cannot be right, printed but not counted: {}.", doubted_));
  if (absent_ > 0) lines.push_back(fmt::format("Published rows without a point in the file: {}.", absent_));
  return lines;
}

}  // namespace mbench::reports
