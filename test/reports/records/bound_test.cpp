// What bounds a step, and what would help.
#include "reports/records/bound.h"

#include "engine/point/choices.h"
#include "engine/point/result.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Contains;

namespace {

PointResult step(std::initializer_list<std::pair<TimePart, double>> parts) {
  PointResult r;
  TimeAnatomy anatomy;
  double sum = 0;
  for (const auto& [part, ms] : parts) at(anatomy.ms, part) = ms, sum += ms;
  r.time_anatomy_ms = anatomy;
  r.iteration_ms = statistics_of({sum});
  r.point.global_batch = 16;
  return r;
}

}  // namespace

TEST_CASE("tensor parallelism over nodes is named, with what stays within one") {
  PointResult r = step({{TimePart::gemms, 40}, {TimePart::communication_tp, 60}});
  r.point.tp = 16;
  CHECK(bound_by(r, 8) == "tp communication 60 %: TP 16 spans 2 nodes, tp of 8 stays within one");
  r.point.tp = 8;
  CHECK(bound_by(r, 8) == "tp communication 60 %: a smaller tp sends less");
  CHECK(bound_by(r, 0) == "tp communication 60 %: a smaller tp sends less");  // nodes are not known
  r.point.sequence_parallel = true;
  CHECK(bound_by(r, 8) == "tp communication 60 %: a smaller tp sends less, tp_comm_overlap overlaps it with GEMMs");
  r.point.tp_comm_overlap = true;
  CHECK(bound_by(r, 8) == "tp communication 60 %: a smaller tp sends less");
}

TEST_CASE("the largest part is told, and the largest that a layout could spare with what would make it less") {
  PointResult r = step({{TimePart::gemms, 70}, {TimePart::bubble, 20}, {TimePart::communication_dp, 10}});
  r.point.pp = 4;
  CHECK_THAT(bound_by(r, 8), Contains("GEMMs 70 %; bubble 20 %: 4 stages with 16 micro batches"));
  r = step({{TimePart::gemms, 70}, {TimePart::communication_dp, 30}});
  r.point.zero = Zero::stage_2;
  CHECK_THAT(bound_by(r, 8), Contains("zero 2 reduces gradients in each of 16 micro batches, zero 1 once a step"));
  r.point.zero = Zero::stage_3;
  CHECK_THAT(bound_by(r, 8), Contains("zero 3 gathers weights for each of 16 micro batches"));
  r = step({{TimePart::gemms, 99.5}, {TimePart::host, 0.5}});
  CHECK(bound_by(r, 8) == "GEMMs 100 %");  // what is not worth telling is not told
}

TEST_CASE("shares of a step add up to it, and nothing is made up where the anatomy is not known") {
  const auto shares = time_shares(step({{TimePart::gemms, 50},
                                        {TimePart::optimizer, 10},
                                        {TimePart::host, 5},
                                        {TimePart::bubble, 15},
                                        {TimePart::communication_ep, 20}}));
  REQUIRE(shares);
  CHECK(shares->compute == Approx(0.6));
  CHECK(shares->host == Approx(0.05));
  CHECK(shares->bubble == Approx(0.15));
  CHECK(shares->communication == Approx(0.2));
  PointResult none;
  CHECK_FALSE(time_shares(none));
  CHECK(bound_by(none, 8).empty());
}
