#include "reports/records/soak_findings.h"

#include "reports/records/record.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Contains;

namespace {

// Windows of 60 s whose steps take 10 ms, by a draw of its own for each window, within `noise` of it; 100 samples a second.
Soak soak_of(std::size_t windows, double noise = 0.01, std::uint32_t seed = 1) {
  Soak soak;
  for (std::size_t i = 0; i < windows; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const double factor = 1 + noise * (2.0 * (seed >> 8) / (1 << 24) - 1);
    SoakWindow w;
    w.end_s = 60.0 * static_cast<double>(i + 1);
    w.steps = 6000;
    w.median_ms = 10 * factor;
    w.worst_ms = 12;
    w.samples_per_s = 100 / factor;
    w.clock_mhz = w.least_clock_mhz = 2400;
    soak.windows.push_back(w);
    soak.steps += w.steps;
    soak.seconds = w.end_s;
  }
  return soak;
}

void slow_down(SoakWindow& w, double factor) {
  w.median_ms *= factor;
  w.samples_per_s /= factor;
  w.clock_mhz /= factor;
  w.least_clock_mhz /= factor;
}

}  // namespace

TEST_CASE("soak: noise alone is neither drift nor dip") {
  for (std::uint32_t seed = 1; seed <= 200; ++seed)
    for (const std::size_t windows : {12, 40, 120}) {
      INFO(seed << " " << windows);
      CHECK(soak_text(soak_of(windows, 0.02, seed)).empty());
    }
}

TEST_CASE("soak: a step that becomes slower over hours is drift, with the clock that went down") {
  Soak soak = soak_of(120);
  for (std::size_t i = 0; i < 120; ++i) slow_down(soak.windows[i], 1 + 0.08 * static_cast<double>(i) / 120);
  CHECK(soak_findings(soak).drift == Approx(1.053).epsilon(0.01));
  CHECK_THAT(soak_text(soak),
             Catch::StartsWith("drift: the last third of the soak is 5.") && Contains("clock 23") && Contains(" MHz"));
  // One that becomes faster is none, nor one of 1 %.
  std::reverse(soak.windows.begin(), soak.windows.end());
  CHECK_FALSE(soak_findings(soak).drift);
  Soak little = soak_of(120);
  for (std::size_t i = 60; i < 120; ++i) slow_down(little.windows[i], 1.01);
  CHECK(soak_text(little).empty());
}

TEST_CASE("soak: windows in a row that train less are one dip, told with when and how long") {
  Soak soak = soak_of(120);
  for (const std::size_t i : {50, 51, 52}) slow_down(soak.windows[i], 1.3);
  slow_down(soak.windows[90], 1.2);
  const auto found = soak_findings(soak);
  REQUIRE(found.dips.size() == 2);
  CHECK(found.dips[0].first == 50);
  CHECK(found.dips[0].count == 3);
  CHECK(found.dips[0].begin_s == 3000);
  CHECK(found.dips[0].end_s == 3180);
  CHECK_FALSE(found.drift);
  const std::string text = soak_text(soak);
  CHECK_THAT(text,
             Catch::StartsWith("2 dips: ") &&
                 Contains("24 % of the throughput lost for 3 min 00 s at 50 min 00 s, clock 2400 to 1846 MHz, ") &&
                 Contains("17 % of the throughput lost for 1 min 00 s at 1 h 30 min"));
  PointResult r = sample::measured(sample::point(1, 1, 512, "baseline"), std::vector<double>(20, 20), 100);
  r.soak = soak;
  CHECK_THAT(Record(r).reason(), Contains("2 dips: "));
  // A row for each window, by the names window.*.
  const auto windows = Record(r).by_window();
  REQUIRE(windows.size() == 120);
  CHECK(windows[50].value("window.dip") == true);
  CHECK(windows[49].value("window.dip") == false);
  CHECK(windows[50].value("window.end_s") == 3060);
  CHECK(windows[50].value("window.against").get<double>() == Approx(1 / 1.3).epsilon(0.03));
  CHECK(Record(sample::point(1, 1, 512, "baseline")).by_window().size() == 1);
}

TEST_CASE("soak: of a few windows nothing is said, and clocks that are not known are not told") {
  Soak few = soak_of(11);
  slow_down(few.windows[5], 2);
  CHECK(soak_text(few).empty());
  Soak silent = soak_of(30);
  slow_down(silent.windows[5], 2);
  for (SoakWindow& w : silent.windows) w.clock_mhz = w.least_clock_mhz = SoakWindow::unknown;
  CHECK(soak_text(silent).find("MHz") == std::string::npos);
  CHECK_THAT(soak_text(silent), Catch::StartsWith("dip: "));
}
