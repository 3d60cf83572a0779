#include "cli/compare_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/html_grid.h"
#include "engine/base/category.h"
#include "engine/base/printed_part.h"
#include "engine/base/time_part.h"
#include "engine/point/result.h"
#include "reports/gate/headline.h"
#include "reports/page/html.h"
#include "reports/page/html_text.h"

namespace mbench::cli {
namespace {

using reports::escape_html;

const PointResult* row_of(const ResultFile& file, const std::string& id) {
  const auto found =
      std::find_if(file.points.begin(), file.points.end(), [&](const PointResult& p) { return p.id == id; });
  return found == file.points.end() ? nullptr : &*found;
}

std::string change_of(double now, double base) {
  return base > 0 ? fmt::format("{:+.1f} %", 100 * (now / base - 1)) : now > 0 ? "new" : "0 %";
}

// Of what either side has.
template <class Names, class Values>
Rows parts_of(const Names& names, const Values& now, const Values& base) {
  Rows rows;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (now[i] > 0 || base[i] > 0)
      rows.push_back({std::string(names[i]), fmt::format("{:.4g}", base[i]), fmt::format("{:.4g}", now[i]),
                      fmt::format("{:+.4g}", now[i] - base[i]), change_of(now[i], base[i])});
  return rows;
}

std::vector<std::string> printed_time_parts() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTimePartNames.size(); ++i) names.push_back(printed_name(static_cast<TimePart>(i)));
  return names;
}

std::string verdicts(const reports::Comparison& comparison) {
  Rows rows;
  for (const reports::PointComparison& point : comparison.points)
    for (const reports::MetricComparison& c : point.metrics) {
      const auto figure = [](const std::optional<double>& x) { return x ? fmt::format("{:.5g}", *x) : std::string(); };
      const double ratio = c.mean ? c.mean->ratio : c.ratio.value_or(0);
      rows.push_back({point.label, c.metric,
                      comparison.options.fails(c.verdict) ? "FAIL: " + name_of(c.verdict) : name_of(c.verdict),
                      ratio > 0 ? fmt::format("{:+.1f} %", 100 * (ratio - 1)) : "",
                      figure(c.mean ? std::optional(c.mean->baseline) : c.baseline),
                      figure(c.mean ? std::optional(c.mean->now) : c.now), c.reason});
    }
  return html_grid({"Point", "Metric", "Verdict", "Change", "Baseline", "New", "Why"}, rows);
}

std::string anatomy(const reports::PointComparison& point, const ResultFile& now, const ResultFile& baseline) {
  const PointResult *n = row_of(now, point.id), *b = row_of(baseline, point.id);
  if (!n || !b) return "";
  const std::vector<std::string> columns = {"Part", "Baseline", "New", "Difference", "Change"};
  std::string out;
  if (n->time_anatomy_ms && b->time_anatomy_ms)
    out += "<h3>Step, ms</h3>\n" +
           html_grid(columns, parts_of(printed_time_parts(), n->time_anatomy_ms->ms, b->time_anatomy_ms->ms));
  if (n->memory_anatomy_mib && b->memory_anatomy_mib)
    out += "<h3>Peak memory, MiB</h3>\n" +
           html_grid(columns, parts_of(kCategoryNames, n->memory_anatomy_mib->mib, b->memory_anatomy_mib->mib));
  if (n->communication_mib && b->communication_mib &&
      sum_of(n->communication_mib->mib) + sum_of(b->communication_mib->mib) > 0)
    out += "<h3>Collectives and messages of a step, MiB</h3>\n" +
           html_grid(columns, parts_of(kCommunicationNames, n->communication_mib->mib, b->communication_mib->mib));
  return out.empty() ? "" : "<section><h2>" + escape_html(point.label) + "</h2>\n" + out + "</section>\n";
}

}  // namespace

std::string compare_page(const reports::Comparison& comparison, const ResultFile& now, const ResultFile& baseline,
                         const std::string& files) {
  std::string body = "<section class=answer>\n<p" + std::string(comparison.fails() ? " class=gap" : "") + "><strong>" +
                     escape_html(reports::headline_of(comparison)) + "</strong></p>\n";
  const std::string subject = reports::subject_of(comparison);
  body += "<p>" + escape_html(files + (subject.empty() ? "" : "; " + subject)) + "</p>\n</section>\n";
  body += "<section><h2>Verdicts</h2>\n" + verdicts(comparison);
  for (const std::string& change : comparison.environment_changes)
    body += "<p class=small>" + escape_html(change) + "</p>\n";
  body += "<p class=small>Times in ms, memory in MiB, energy in J.</p></section>\n";
  for (const reports::PointComparison& point : comparison.points) body += anatomy(point, now, baseline);
  return reports::html_document("Comparison of two results", body);
}

}  // namespace mbench::cli
