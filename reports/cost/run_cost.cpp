#include "reports/cost/run_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace mbench::reports {
namespace {

// One end of each figure that was asked for.
struct Corner {
  double tokens = 0;
  std::optional<double> price, device_mtbf, restart, checkpoint_bandwidth, watts;
};

// Every choice of ends. What is computed of them rises or falls with each figure alone, so that its bounds are among these (the
// interval too, as long as a checkpoint takes less than half the time between failures).
std::vector<Corner> corners_of(const RunAsked& asked) {
  std::vector<Corner> all(1);
  const auto branch = [&](const Range& r, const auto& set) {
    std::vector<Corner> more;
    for (const Corner& c : all)
      for (const double end : {r.low, r.high}) {
        Corner next = c;
        set(next, end);
        more.push_back(next);
        if (r.exact()) break;
      }
    all = std::move(more);
  };
  branch(asked.tokens, [](Corner& c, double x) { c.tokens = x; });
  const auto branch_known = [&](const std::optional<Range>& r, std::optional<double> Corner::*member) {
    if (r) branch(*r, [member](Corner& c, double x) { c.*member = x; });
  };
  branch_known(asked.price, &Corner::price);
  branch_known(asked.device_mtbf, &Corner::device_mtbf);
  branch_known(asked.restart, &Corner::restart);
  branch_known(asked.checkpoint_bandwidth, &Corner::checkpoint_bandwidth);
  branch_known(asked.watts, &Corner::watts);
  return all;
}

void widen(std::optional<Range>& range, double value) {
  if (!range) range = Range{value, value};
  range->low = std::min(range->low, value), range->high = std::max(range->high, value);
}

// The same for one corner; what is not known is empty.
struct Figures {
  double steps = 0, work = 0, device_hours = 0;
  std::optional<double> job_mtbf, checkpoint, interval, failures, goodput, elapsed, money, joules;
};

Figures figures_of(const StepFacts& step, const Corner& c) {
  Figures f;
  const auto devices = static_cast<double>(step.devices);
  f.steps = std::ceil(c.tokens / step.tokens);
  f.work = f.steps * step.seconds;
  if (c.device_mtbf) f.job_mtbf = *c.device_mtbf / devices;
  if (c.checkpoint_bandwidth) f.checkpoint = step.checkpoint_bytes / *c.checkpoint_bandwidth;
  if (f.job_mtbf && f.checkpoint && c.restart) {
    f.interval = std::min(best_interval(*f.checkpoint, *f.job_mtbf), f.work);
    f.elapsed = expected_seconds(f.work, *f.interval, *f.checkpoint, *c.restart, *f.job_mtbf);
    f.goodput = f.work / *f.elapsed;
    f.failures = *f.elapsed / *f.job_mtbf;
  }
  const double seconds = f.elapsed.value_or(f.work);
  f.device_hours = devices * seconds / 3600;
  if (c.price) f.money = f.device_hours * *c.price;
  // Measured energy is of steps; a power counts all of the time.
  if (c.watts)
    f.joules = *c.watts * devices * seconds;
  else if (step.joules)
    f.joules = *step.joules * f.steps;
  return f;
}

}  // namespace

double best_interval(double d, double m) {
  if (d >= 2 * m) return m;
  const double x = d / (2 * m);
  return std::sqrt(2 * d * m) * (1 + std::sqrt(x) / 3 + x / 9) - d;
}

double expected_seconds(double work, double interval, double checkpoint, double restart, double job_mtbf) {
  return job_mtbf * std::exp(restart / job_mtbf) * std::expm1((interval + checkpoint) / job_mtbf) * work / interval;
}

RunCost cost_of(const StepFacts& step, const RunAsked& asked) {
  std::optional<Range> steps, work, device_hours;
  RunCost cost;
  for (const Corner& corner : corners_of(asked)) {
    const Figures f = figures_of(step, corner);
    widen(steps, f.steps), widen(work, f.work), widen(device_hours, f.device_hours);
    const auto known = [](std::optional<Range>& range, const std::optional<double>& value) {
      if (value) widen(range, *value);
    };
    known(cost.job_mtbf, f.job_mtbf), known(cost.checkpoint, f.checkpoint), known(cost.interval, f.interval);
    known(cost.failures, f.failures), known(cost.goodput, f.goodput), known(cost.elapsed, f.elapsed);
    known(cost.money, f.money), known(cost.joules, f.joules);
  }
  cost.steps = *steps, cost.work = *work, cost.device_hours = *device_hours;
  return cost;
}

}  // namespace mbench::reports
