// Points that differ only in their seed, as one: what a measurement is worth beyond one draw of weights and data.
#pragma once
#include <vector>

#include "reports/records/record.h"

namespace mbench::reports {

struct SeedGroup {
  std::vector<const Record*> points;  // in the order given
  // The first of them that is ok, with the means over the seeds as metrics. Those with a mean and a standard deviation have these of
  // the seeds' means. It also has the names
  //
  //   seeds.counted          "3", or "2 of 3" where some have no result
  //   seeds.METRIC.mean, .stddev, .least, .most    of every metric, and seeds.last_loss.*
  Record record;
};
std::vector<SeedGroup> by_seeds(const std::vector<const Record*>& points);

}  // namespace mbench::reports
