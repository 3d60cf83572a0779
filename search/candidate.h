// A layout that a search has not decided.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "engine/point/point.h"
#include "search/objective.h"
#include "search/tried.h"

namespace mbench::search {

struct Candidate {
  std::shared_ptr<const Point> family;  // this layout, of any micro batch: a point is long, and a family has many
  std::int64_t micro_batch = 1;
  LowerBound lower_bound;
  Score score;
  std::size_t number = 0;  // in the order of the space, which decides ties
  double joules = 0;       // as an outline has them, 0 before
  double held_mib = 0;     // by the allocator of the rank that has most handed out, once known
  enum class Known { lower_bound, close_bound, outline, held } known = Known::lower_bound;
  int parts = 0;  // of the close bound, which are in `lower_bound` already

  Point point() const {
    Point p = *family;
    p.micro_batch = micro_batch;
    return p;
  }
  double mib() const { return lower_bound.total_bytes() / kMiB; }
  // The least that a simulation can find that it needs.
  double needs_mib() const { return std::max(mib(), held_mib); }
};

}  // namespace mbench::search
