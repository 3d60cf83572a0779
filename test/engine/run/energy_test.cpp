// How counters of ranks and parts of a step become the energy of a row.
#include "engine/run/energy.h"

#include "engine/platform/registry.h"
#include "engine/point/result.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;

namespace {

PointResult row(double ms) {
  PointResult r;
  r.point.seq = 100;
  r.point.global_batch = 5;
  r.iteration_ms = statistics_of({ms, ms});
  return r;
}

}  // namespace

TEST_CASE("each counter counts once, and the step has its share of their power") {
  PointResult r = row(500);
  // Two ranks share a host's counter; a third is on another host, which was looked at for longer.
  add_counted_energy({{200.0, 2.0, "host a", "RAPL, 1 package"},
                      {198.0, 2.0, "host a", "RAPL, 1 package"},
                      {600.0, 3.0, "host b", "RAPL, 1 package"}},
                     r);
  REQUIRE(r.energy_joules);
  CHECK(*r.energy_joules == Approx((100 + 200) * 0.5));
  CHECK(*r.tokens_per_joule == Approx(500 / 150.0));
  CHECK(r.energy_source == "RAPL, 1 package, of 2");
}

TEST_CASE("where one rank's counter is unknown so is the row's energy, with the reason") {
  PointResult r = row(500);
  add_counted_energy({{200.0, 2.0, "host a", "RAPL"}, {std::nullopt, 0, "host b", "no energy counter of a CPU"}}, r);
  CHECK_FALSE(r.energy_joules);
  CHECK_FALSE(r.tokens_per_joule);
  CHECK(r.energy_source == "unknown: no energy counter of a CPU");
}

TEST_CASE("readings reach every rank as they are") {
  run_replicas(2, [](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0, 1});
    const EnergyReading mine = world.rank() == 0 ? EnergyReading{12.5, 2, "host a", "RAPL"}
                                                 : EnergyReading{std::nullopt, 0, "host b", "nothing counts"};
    const auto ranks = gather_energy(*all, mine);
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0].joules == 12.5);
    CHECK(ranks[0].seconds == 2);
    CHECK(ranks[0].counted == "host a");
    CHECK(ranks[0].source == "RAPL");
    CHECK_FALSE(ranks[1].joules);
    CHECK(ranks[1].counted == "host b");
    CHECK(ranks[1].source == "nothing counts");
  });
}

TEST_CASE("a simulated device draws by what it does, and idles for the rest") {
  const PowerCurve watts{100, 700, 400, 200};
  TimeByPart parts{};
  at(parts, TimePart::gemms) = 1;
  at(parts, TimePart::attention) = 0.5;
  at(parts, TimePart::optimizer) = 0.25;
  at(parts, TimePart::bubble) = 0.125;
  at(parts, TimePart::communication_dp) = 0.125;
  CHECK(joules_of(parts, 3, watts) == Approx(1.5 * 700 + 0.25 * 400 + 0.25 * 200 + 1 * 100));
  CHECK(joules_of(parts, 2, watts) == Approx(1.5 * 700 + 0.25 * 400 + 0.25 * 200));
}
