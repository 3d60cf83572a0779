// What all changes together may cost: an allowance for time or memory since one stored entry, as well as the threshold of each single
// change. Thirteen revisions of 1 % each pass a threshold of 5 % one by one, and no budget of 5 %.
//
//   slower, larger   Over the budget: the change since that entry is beyond doubt, and at least as large as the budget.
//   ambiguous        It may be over the budget.
//   same             Within it; the reason says how much is used.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "reports/gate/compare.h"

namespace mbench::reports {

struct Budget {  // fractions
  std::optional<double> time, memory;
  bool empty() const { return !time && !memory; }
};
// "time=5%"; throws bad_input naming --budget otherwise.
void set_budget(Budget& budget, const std::string& text);

// The options for comparing NEW with the entry.
CompareOptions budget_options(const Budget& budget);

// Adds a row "time budget" or "memory budget" to each point of `comparison`. `since` compared NEW with the entry by these options.
// `origins`: the name of a point's entry, by its id.
void add_budget(Comparison& comparison, const Comparison& since, const Budget& budget,
                const std::map<std::string, std::string>& origins);

}  // namespace mbench::reports
