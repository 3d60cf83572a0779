#include "engine/run/soak.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;

namespace {

// Sensors that tell a clock.
class Fixed final : public Gauge {
 public:
  explicit Fixed(double mhz) { readings_.clock_mhz = mhz; }
  Readings read() override { return readings_; }

 private:
  Readings readings_;
};

}  // namespace

TEST_CASE("soak: windows end with the step in which their time is over, and the statistics are those of all steps") {
  run_replicas(2, [](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0, 1});
    // 1000 MHz more with each window, and on the second rank less. Windows of half a second.
    double mhz = 0;
    SoakLog log(*all, 60, 4, [&] { return std::make_unique<Fixed>((mhz += 1000) - 100 * world.rank()); });
    std::vector<double> slowest;
    double elapsed = 0;
    for (int i = 0; i < 100; ++i) {
      // Now one rank is the slower, now the other.
      const double ms = 10 + i % 7, mine = (i % 2 == world.rank() ? ms : 5) * 1e-3;
      slowest.push_back(ms);
      elapsed += 0.02;
      const SoakWindow* window = log.add(mine, mine / 2, elapsed);
      CHECK((window != nullptr) == (i % 25 == 24));
      CHECK_FALSE(log.is_over(elapsed));
    }
    CHECK(log.is_over(60));
    log.add(0.1, 0.05, 2.1);
    slowest.push_back(100);
    REQUIRE(log.finish(2.25) != nullptr);
    CHECK(log.finish(2.25) == nullptr);
    const Soak& soak = log.soak();
    REQUIRE(soak.windows.size() == 5);
    CHECK(soak.steps == 101);
    CHECK(soak.seconds == 2.25);
    CHECK(soak.windows[0].steps == 25);
    CHECK(soak.windows[0].end_s == Approx(0.5));
    CHECK(soak.windows[1].clock_mhz == 1950);
    CHECK(soak.windows[1].least_clock_mhz == 1900);
    CHECK(std::isnan(soak.windows[1].power_w));
    CHECK(soak.windows[4].worst_ms == Approx(100));
    CHECK(soak.windows[4].samples_per_s == Approx(40));
    const Statistics found = log.statistics(), all_steps = statistics_of(slowest);
    CHECK(found.mean == Approx(all_steps.mean));
    CHECK(found.stddev == Approx(all_steps.stddev));
    CHECK(found.min == Approx(10));
    CHECK(found.max == Approx(100));
    CHECK(found.median == Approx(all_steps.median).epsilon(0.002));
    CHECK(found.p95 == Approx(all_steps.p95).epsilon(0.002));
    CHECK(found.samples.size() == 5);
    CHECK(log.own_steps().size() == 5);
    CHECK(log.own_compute()[4] == Approx(0.05));
  });
}

TEST_CASE("soak: a row of a day has few windows, and is read as it was written") {
  run_replicas(1, [](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0});
    SoakLog log(*all, 86400, 1, [] { return nullptr; });
    for (double elapsed = 10; elapsed < 86400; elapsed += 10) log.add(9.9, 9, elapsed);
    log.finish(86400);
    CHECK(log.soak().windows.size() <= kSoakWindows + 1);
    const nlohmann::ordered_json json = soak_to_json(log.soak());
    CHECK(json.dump().size() < 8000);
    CHECK_FALSE(json.contains("clock_mhz"));
    CHECK(soak_to_json(soak_from_json(nlohmann::json(json), "test")) == json);
    nlohmann::json cut = json;
    cut["median_ms"].erase(0);
    CHECK_THROWS_AS(soak_from_json(cut, "test"), Error);
    CHECK_THROWS_AS(soak_from_json(nlohmann::json(3), "test"), Error);
  });
}
