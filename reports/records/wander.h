// Whether the level of a run lasts: two states that hold for many steps, a change, a drift. Such samples are worth as many independent
// ones as there are stays at a level, however many steps each has. Two runs of one program then differ by chance.
//
// Levels are seen in two ways.
//
//   states   There are two modes (slow_steps.h), and they alternate less often than by chance: the exact runs test of Wald and Wolfowitz, 1940.
//            The modes of two runs are also looked for in both together. A run that ends in another state holds few steps of it.
//   change   There is one step or a line within the run, by strong evidence (levels.h). That is two stays.
//
// A run of r stays at levels that differ by d knows its mean to d / (2 sqrt r). A run that shows none, or much smaller ones, may be one
// long stay, unless the other has twelve or more: then it would have shown one.
#pragma once
#include <vector>

#include "reports/records/slow_steps.h"

namespace mbench::reports {

struct Wander {
  double by = 0;     // between the levels, as a logarithm; 0: none are seen
  double stays = 0;  // at one level or the other; the first and the last count as one
};
// Positive samples in the order they were taken. A warm-up and a single spike are left out, of a change all slow steps.
Wander wander_of(const std::vector<double>& samples, const SlowSteps& slow);

struct Wanders {
  Wander one, other;
};
// Of two runs of one point.
Wanders wanders_of(const std::vector<double>& one, const SlowSteps& slow_one, const std::vector<double>& other,
                   const SlowSteps& slow_other);

// Up to which logarithm of their ratio two runs may differ by chance, at 99 %; 0 where neither wanders.
double doubt_of(const Wander& one, const Wander& other);

}  // namespace mbench::reports
