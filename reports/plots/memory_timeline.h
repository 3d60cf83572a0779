// What a rank's memory is filled with over a step, as a plot: the categories on top of each other, and the peak marked.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "engine/base/category.h"
#include "reports/plots/plot.h"

namespace mbench::reports {

struct MemoryOverStep {
  std::string heading;             // which point, which rank
  std::vector<std::string> parts;  // of the step, at least one: "forward 0", which lies from its number to the next
  std::vector<double> begins_ms;   // when each part begins, where moments have times; else `at` counts parts
  struct Moment {
    double at = 0;
    std::array<double, kCategories> mib{};
  };
  std::vector<Moment> moments;  // in order; at least one
  bool simulated = false;
};

// Of many moments those with the most memory, so that the peak is one.
Plot memory_timeline_plot(const MemoryOverStep& over);

}  // namespace mbench::reports
