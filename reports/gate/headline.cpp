#include "reports/gate/headline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/gate/changed_parts.h"
#include "reports/records/number_text.h"

namespace mbench::reports {
namespace {

struct Finding {
  const PointComparison* point;
  const MetricComparison* metric;
};

double ratio_paid(const MetricComparison& c) {
  return c.mean ? c.mean->ratio : c.ratio.value_or(1);
}

// "7.0 %", of points that differ "5.1 to 7.0 %".
std::string change_in_percent(const std::vector<Finding>& found) {
  double least = HUGE_VAL, most = 0;
  for (const Finding& f : found) {
    const double change = std::abs(ratio_paid(*f.metric) - 1);
    least = std::min(least, change), most = std::max(most, change);
  }
  if (const std::string far = beyond_percent(1 + most); !far.empty()) return far;
  const auto text = [](double x) { return fmt::format("{:.1f}", x * 100); };
  return text(least) == text(most) ? text(most) + " %" : fmt::format("{} to {} %", text(least), text(most));
}

std::string most_bytes(const std::vector<Finding>& found) {
  const Finding* most = nullptr;
  const auto change = [](const Finding& f) {
    return f.metric->now && f.metric->baseline ? std::abs(*f.metric->now - *f.metric->baseline) : 0;
  };
  for (const Finding& f : found)
    if (!most || change(f) > change(*most)) most = &f;
  if (!most->metric->now || !most->metric->baseline) return name_of(most->metric->verdict);
  return byte_change(*most->metric->now, *most->metric->baseline).substr(1);
}

std::string what(Verdict verdict, const std::vector<Finding>& found) {
  const bool budget = found.front().metric->is_budget;
  std::string text = name_of(verdict);
  if (verdict == Verdict::slower) text = change_in_percent(found) + " slower";
  if (verdict == Verdict::larger)
    text = found.front().metric->metric == "energy" ? change_in_percent(found) + " more energy"
                                                    : most_bytes(found) + " larger";
  if (!budget) return text;
  const std::string& reason = found.front().metric->reason;  // "over the budget of 5 % since abc1234 (2026-01-02); ..."
  return text + ", " + reason.substr(0, reason.find(';'));
}

// What these points have in common and not all points have; or else the first of them.
std::string where(const Comparison& comparison, const std::vector<Finding>& found) {
  const std::size_t all = comparison.points.size();
  if (found.size() == all) return all == 1 ? found.front().point->label : fmt::format("all {} points", all);
  const auto has = [](const PointComparison& point, const std::string& term) {
    return std::find(point.terms.begin(), point.terms.end(), term) != point.terms.end();
  };
  std::string common;
  for (const std::string& term : found.front().point->terms) {
    const bool theirs = std::all_of(found.begin(), found.end(), [&](const Finding& f) { return has(*f.point, term); });
    const bool everyones = std::all_of(comparison.points.begin(), comparison.points.end(),
                                       [&](const PointComparison& p) { return has(p, term); });
    if (theirs && !everyones) common += (common.empty() ? "" : ", ") + term;
  }
  if (common.empty())
    common = found.front().point->label + (found.size() > 1 ? fmt::format(" and {} more", found.size() - 1) : "");
  return fmt::format("{} ({} of {} points)", common, found.size(), all);
}

// The points with that verdict, each once.
std::vector<Finding> findings(const Comparison& comparison, Verdict verdict, bool budget) {
  std::vector<Finding> found;
  for (const PointComparison& point : comparison.points) {
    const auto it = std::find_if(point.metrics.begin(), point.metrics.end(), [&](const MetricComparison& c) {
      return c.verdict == verdict && c.is_budget == budget;
    });
    if (it != point.metrics.end()) found.push_back({&point, &*it});
  }
  return found;
}

std::string reported_of(const Comparison& comparison, Verdict verdict) {
  std::string text;
  for (const bool budget : {false, true})
    if (const auto found = findings(comparison, verdict, budget); !found.empty())
      text += (text.empty() ? "" : "; ") + what(verdict, found) + ": " + where(comparison, found);
  return text;
}

std::string counted(std::size_t n) {
  return fmt::format("{} {}", n, n == 1 ? "point" : "points");
}

}  // namespace

std::string headline_of(const Comparison& comparison) {
  std::string bad;
  for (const Verdict verdict : {Verdict::failed, Verdict::changed, Verdict::slower, Verdict::larger})
    if (const std::string text = reported_of(comparison, verdict); !text.empty())
      bad += (bad.empty() ? "" : "; ") + text;
  if (!bad.empty()) return bad;
  const std::size_t all = comparison.points.size();
  const auto open = static_cast<std::size_t>(
      std::count_if(comparison.points.begin(), comparison.points.end(), [](const PointComparison& point) {
        return std::any_of(point.metrics.begin(), point.metrics.end(),
                           [](const MetricComparison& c) { return c.verdict == Verdict::ambiguous; });
      }));
  if (open > 0 && open == all) return fmt::format("undecided in {} of {}", open, counted(all));
  for (const Verdict verdict : kVerdicts)
    if (comparison.options.fails(verdict))
      if (const std::string text = reported_of(comparison, verdict); !text.empty())
        bad += (bad.empty() ? "" : "; ") + text;
  if (!bad.empty()) return "no regression, but " + bad;
  if (open == 0) return "no regression in " + counted(all);
  return fmt::format("no regression, undecided in {} of {}", open, counted(all));
}

std::string subject_of(const Comparison& comparison) {
  std::string text = comparison.machine;
  const auto add = [&](const std::string& more) { text += (text.empty() || more.empty() ? "" : ", ") + more; };
  if (!comparison.now_revision.empty() && !comparison.baseline_revision.empty())
    add(fmt::format("{} against {}", comparison.now_revision, comparison.baseline_revision));
  return text;
}

}  // namespace mbench::reports
