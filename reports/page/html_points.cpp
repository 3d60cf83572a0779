// html_points of html_table.h.
#include <fmt/format.h>

#include <algorithm>

#include "engine/point/result_file.h"
#include "reports/page/html_pairs.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"
#include "reports/page/point_label.h"
#include "reports/page/reproduce.h"
#include "reports/records/number_text.h"
#include "reports/records/outliers.h"
#include "reports/tables/build_table.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string number(const Json& value, int digits) {
  if (!value.is_number()) return "n/a";
  return fixed_text(value.get<double>(), digits);
}

// As many decimals as show four digits of the smallest time on the page.
int decimals_for(const std::vector<const Record*>& points) {
  double least = 0;
  for (const Record* record : points) {
    const Json mean = record->value("iteration_ms.mean");
    if (mean.is_number() && mean.get<double>() > 0 && (least == 0 || mean.get<double>() < least))
      least = mean.get<double>();
  }
  return least >= 1000 || least == 0 ? 0 : least >= 100 ? 1 : least >= 10 ? 2 : 3;
}

std::string samples_cells(const Record& record, int digits) {
  const Json& all = record.json();
  const auto found = all.find("iteration_ms");
  if (found == all.end() || !found->is_object()) {
    std::string none;
    for (int i = 0; i < 6; ++i) none += "<td class=\"r na\">n/a</td>";
    return none;
  }
  const Json& time = *found;
  std::string out;
  const auto cell = [&](const std::string& text) { out += "<td class=r>" + text + "</td>"; };
  const std::vector<double>& samples = record.samples_ms();  // a record's JSON has the first and the last alone
  cell(samples.empty() ? "n/a" : fmt::format("{}", samples.size()));
  const auto part = [&](const char* name) { return time.contains(name) ? number(time[name], digits) : "n/a"; };
  const bool spread = time.contains("stddev") && time["stddev"].is_number();
  cell(part("mean") + (spread ? " \u00B1 " + part("stddev") : ""));
  cell(part("median"));
  cell(part("p95"));
  cell(part("min") + " to " + part("max"));
  const auto outliers = outliers_of(samples);
  cell(outliers ? fmt::format("{}", std::count(outliers->begin(), outliers->end(), true)) : "n/a");
  return out;
}

std::string loss_cell(const Record& record) {
  const auto losses = record.json().find("losses");
  if (losses == record.json().end() || !losses->is_array() || losses->empty()) return "<td class=\"r na\">n/a</td>";
  return fmt::format("<td class=r>{} \u2192 {}</td>", number(losses->front(), 4), number(losses->back(), 4));
}

// In pieces that stay on one line: a browser would break "--filter" after its hyphens.
std::string command_html(const std::string& command) {
  std::string out = "<code>";
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t end = std::min(command.find(" --", at), command.size());
    out += fmt::format("{}<span>{}</span>", at ? " " : "", escape_html(command.substr(at, end - at)));
    at = end + 1;
  }
  return out + "</code>";
}

// What tells a point from all others of the file, those outside a filter too, where the spec does not say it.
std::vector<std::string> differing_fields(const ResultFile& file) {
  if (!file.spec.is_object() || file.spec.contains("sweep")) return {};
  const std::vector<Record> records = records_of(file);
  std::vector<const Record*> all;
  for (const Record& record : records) all.push_back(&record);
  return swept_fields(file.spec, all);
}

}  // namespace

std::string html_points(const ResultFile& file, const std::string& path, const std::vector<const Record*>& points,
                        const std::vector<std::string>& swept, const std::string& prefix) {
  const int digits = decimals_for(points);
  const std::vector<std::string> differing = differing_fields(file);
  std::string out =
      "<div class=wide tabindex=0 role=region aria-label=\"Every point\"><table class=\"sorts points\" data-pairs=\"" +
      prefix +
      "pairs\">"
      "<caption>Times in milliseconds, of the measured steps</caption>\n<thead><tr><th scope=col>Point</th>"
      "<th scope=col>Outcome</th>";
  for (const char* header :
       {"Steps", "Mean \u00B1 std. dev.", "Median", "p95", "Least to most", "Outliers", "Loss, first \u2192 last"})
    out += fmt::format("<th scope=col class=r>{}</th>", header);
  out += "<th scope=col>Runs it again</th></tr></thead>\n<tbody>\n";
  for (const Record* record : points) {
    out += fmt::format("<tr id=\"{0}{1}\" data-point=\"{1}\"><th scope=row>{2}{3}</th>", prefix,
                       escape_html(record->id()), escape_html(point_label(*record, swept)),
                       record->simulated() ? " <span class=sim>simulated</span>" : "");
    out +=
        fmt::format("<td{}>{}{}</td>", record->outcome() == Outcome::ok ? "" : " class=gap",
                    escape_html(outcome_text(record->outcome())),
                    record->reason().empty() ? "" : "<br><span class=why>" + escape_html(record->reason()) + "</span>");
    out += samples_cells(*record, digits) + loss_cell(*record);
    out += "<td>" + command_html(reproduce_command(file, path, *record, differing)) + "</td></tr>\n";
  }
  return out + "</tbody></table></div>\n" + html_pairs(points, swept, prefix);
}

}  // namespace mbench::reports
