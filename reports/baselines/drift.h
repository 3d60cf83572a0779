// Whether a series of entries drifts. It does if a straight line, from its first entry or from a later one, explains it as well as
// levels with steps do. Fourteen revisions of 1 % each have no revision to blame, but a search for steps names one in their middle.
//
// The Bayesian information criterion (reports/records/levels.h) compares the models on the logarithms: a line, one step, and the steps
// that change_point.h finds. A series drifts on two conditions. There is very strong evidence for a line against one level (by 10), and
// the best of the steps is not better by 2. A difference of 2 is "not worth more than a bare mention" (Kass and Raftery, 1995).
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "reports/baselines/change_point.h"

namespace mbench::reports {

struct Drift {
  std::size_t since = 0;                             // the last entry at the old level
  double per_entry = 0;                              // a share: 0.01 is 1 % an entry
  double start = 0, end = 0;                         // values of the line
  double explained = 0;                              // share of the variance
  double line_bic = 0, step_bic = 0, level_bic = 0;  // less is better; of the best of the steps
  ChangePoint step;                                  // the best single one, for comparison
  bool drifts = false;                               // on the two conditions
  bool instead_of_steps = false;                     // and the line is better than the steps, by 2 or more
};
// The evidence for a line, whether or not the series drifts; nothing of fewer values than steps need. Positive values, oldest first.
// `steps`: the result of find_change_points for them.
std::optional<Drift> find_drift(const std::vector<double>& values, const std::vector<ChangePoint>& steps);

}  // namespace mbench::reports
