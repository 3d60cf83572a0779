#include "reports/baselines/drift.h"

#include <algorithm>
#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kAsWell = 2;

// The criterion of levels with these steps between them; each step is a level and a place.
double information_of_steps(const std::vector<double>& y, const std::vector<ChangePoint>& steps) {
  double left = 0, scale = 0;
  std::size_t begin = 0;
  for (std::size_t s = 0; s <= steps.size(); ++s) {
    const std::size_t end = s < steps.size() ? steps[s].at : y.size();
    double mean = 0;
    for (std::size_t i = begin; i < end; ++i)
      mean += y[i] / static_cast<double>(end - begin), scale = std::max(scale, std::abs(y[i]));
    for (std::size_t i = begin; i < end; ++i) left += (y[i] - mean) * (y[i] - mean);
    begin = end;
  }
  return information(left, y.size(), 1 + 2 * static_cast<double>(steps.size()), scale);
}

}  // namespace

std::optional<Drift> find_drift(const std::vector<double>& values, const std::vector<ChangePoint>& steps) {
  if (values.size() < kLeastForChangePoint) return std::nullopt;
  std::vector<double> logs;
  for (const double v : values) logs.push_back(std::log(v));
  const Levels levels = levels_of(logs, 1, true);
  Drift drift;
  drift.line_bic = levels.line_bic;
  drift.level_bic = levels.constant_bic;
  drift.step_bic = steps.empty() ? levels.step_bic : std::min(levels.step_bic, information_of_steps(logs, steps));
  drift.drifts = drift.line_bic <= drift.level_bic - Levels::kVeryStrong && drift.line_bic <= drift.step_bic + kAsWell;
  drift.instead_of_steps = drift.drifts && drift.line_bic <= drift.step_bic - kAsWell;
  drift.since = levels.since;
  drift.per_entry = std::expm1(levels.slope);
  drift.start = std::exp(levels.start);
  drift.end = std::exp(levels.start + levels.slope * static_cast<double>(values.size() - 1 - levels.since));
  drift.explained = levels.explained;
  drift.step = {levels.at, 0, std::exp(levels.before), std::exp(levels.after)};
  return drift;
}

}  // namespace mbench::reports
