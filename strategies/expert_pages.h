// Pages for what experts keep until their backward (paged_stash): what that is, and how many pages a stage's schedule wants for it.
#pragma once
#include <vector>

#include "engine/plan/plan.h"
#include "engine/point/point.h"

namespace mbench::strategies {

// Pages of each stage for rows as balanced routing sends them, times the point's factors. `plan`: with chunks, schedule, recompute and
// framework.
std::vector<std::vector<ExpertRoom::Pages>> pages_for(const Point& point, const Plan& plan, std::int64_t balanced_rows);

// What a stage's forwards find where so many rows come to each.
struct FoundPages {
  bool all = true;    // whether each tensor found a place
  bool host = false;  // whether any had to go to the host
  // Of the first tensor without a place: how many pages it wants, and how many of one place are free at most.
  std::int64_t row_bytes = 0, wanted = 0, free = 0;
};
FoundPages find_pages(const Point& point, const Plan& plan, std::size_t stage, std::int64_t rows,
                      const std::vector<ExpertRoom::Pages>& pages);

}  // namespace mbench::strategies
