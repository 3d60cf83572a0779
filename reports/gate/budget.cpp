#include "reports/gate/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"

namespace mbench::reports {
namespace {

// The change that counts: of the mean step, where that is known.
double change_since(const MetricComparison& c) {
  return (c.mean ? c.mean->ratio : c.ratio.value_or(1)) - 1;
}

void judge_budget(MetricComparison& c, double budget, const std::string& since) {
  const double change = change_since(c);
  const std::string allowed = fmt::format("the budget of {:.4g} % since {}", budget * 100, since);
  const std::string why = c.reason.empty() ? "" : "; " + c.reason;
  const bool more = c.verdict == Verdict::slower || c.verdict == Verdict::larger;
  if (more && change >= budget) {
    c.reason = "over " + allowed + why;
  } else if (more || c.verdict == Verdict::ambiguous) {
    c.reason = fmt::format("may be over {}: {:+.1f} %{}", allowed, change * 100, why);
    c.verdict = Verdict::ambiguous;
  } else {
    c.reason = fmt::format("{:+.1f} % of {}", change * 100, allowed);
    c.verdict = Verdict::same;
  }
}

}  // namespace

void set_budget(Budget& budget, const std::string& text) {
  Thresholds read;
  set_threshold(read, text, "--budget");
  const std::string name = text.substr(0, text.find('='));
  if (name == "time")
    budget.time = read.time;
  else if (name == "memory")
    budget.memory = read.memory;
  else
    fail(ErrorKind::bad_input, "--budget", "no budget of losses, got \"{}\", need time=5% or memory=1%", text);
}

CompareOptions budget_options(const Budget& budget) {
  CompareOptions options;
  options.metrics.clear();
  if (budget.time) options.metrics.push_back("time"), options.thresholds.time = *budget.time;
  if (budget.memory) options.metrics.push_back("memory"), options.thresholds.memory = *budget.memory;
  return options;
}

void add_budget(Comparison& comparison, const Comparison& since, const Budget& budget,
                const std::map<std::string, std::string>& origins) {
  for (const PointComparison& held : since.points) {
    const auto point = std::find_if(comparison.points.begin(), comparison.points.end(),
                                    [&](const PointComparison& p) { return p.id == held.id; });
    if (point == comparison.points.end()) continue;
    const auto origin = origins.find(held.id);
    for (MetricComparison c : held.metrics) {
      const bool time = c.metric == "time", memory = c.metric == "memory";
      if (c.verdict == Verdict::not_comparable) {
        c.metric = "budget";
      } else if ((time || memory) && origin != origins.end()) {
        judge_budget(c, time ? *budget.time : *budget.memory, origin->second);
        c.metric += " budget";
      } else {
        continue;
      }
      c.is_budget = true;
      point->metrics.push_back(std::move(c));
    }
  }
}

}  // namespace mbench::reports
