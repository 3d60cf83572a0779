// What a GPU's sensors tell reaches the windows of a soak, through a library that stands in for NVML. It is opened here by its path;
// the backend then finds it under the name of the driver's.
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/platform/nvml/energy.h"
#include "engine/platform/nvml/sensors.h"
#include "engine/platform/nvml/signature.h"
#include "engine/platform/registry.h"
#include "engine/run/soak.h"
#include "test/catch.h"
#include "test/fake_nvml/fake_nvml.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;

namespace {

fake_nvml::Values& opened() {
  static void* library = ::dlopen(FAKE_NVML, RTLD_NOW);
  if (!library) FAIL(::dlerror());
  const auto values = reinterpret_cast<decltype(&fake_nvml_values)>(::dlsym(library, "fake_nvml_values"));
  if (!values) FAIL(::dlerror());
  return *values();
}

// The windows' power is the sensor's here, and not what the counter says over more than a second.
fake_nvml::Values without_counter() {
  fake_nvml::Values v;
  v.tells_energy = false;
  return v;
}

}  // namespace

TEST_CASE("a soak's windows have a GPU's clock, power, heat and what held the clock down, as NVML tells them") {
  fake_nvml::Values& values = opened();
  values = without_counter();
  CHECK(why_no_gpu_sensors() == "");
  CHECK(platform::nvml::watch("0000:11:00.0") == nullptr);  // there is none
  run_replicas(1, [&](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0});
    SoakLog log(*all, 60, 4, [] { return platform::nvml::watch("0000:10:00.0"); });
    REQUIRE(log.add(0.6, 0.5, 0.6) != nullptr);
    // A window's sensors are read as it begins, every 0.1 s, and as it ends.
    values = {.clock_mhz = 1200,
              .power_mw = 300000,
              .celsius = 88,
              .reasons = 0x4 | 0x20,
              .tells_energy = false,
              .sessions = values.sessions};
    REQUIRE(log.add(0.6, 0.5, 1.2) != nullptr);
    REQUIRE(log.add(0.6, 0.5, 1.8) != nullptr);
    values.tells_temperature = false;
    REQUIRE(log.add(0.6, 0.5, 2.4) != nullptr);
    REQUIRE(log.add(0.6, 0.5, 3.0) != nullptr);
    const Soak soak =
        soak_from_json(nlohmann::json::parse(soak_to_json(log.soak()).dump()), "test");  // as a row keeps it
    REQUIRE(soak.windows.size() == 5);
    CHECK(soak.windows[0].clock_mhz == 1980);
    CHECK(soak.windows[0].least_clock_mhz == 1980);
    CHECK(soak.windows[0].power_w == 500);
    CHECK(soak.windows[0].hottest_c == 60);
    CHECK(soak.windows[0].throttle == "none");
    CHECK(soak.windows[1].hottest_c == 88);  // it began cooler
    CHECK(soak.windows[2].clock_mhz == 1200);
    CHECK(soak.windows[2].power_w == 300);
    CHECK(soak.windows[2].throttle == "sw_power_cap, sw_thermal_slowdown");
    CHECK(std::isnan(soak.windows[4].hottest_c));
    CHECK(soak.windows[4].clock_mhz == 1200);
  });
  CHECK(values.sessions == 0);  // each was shut down
  values = {};
}

TEST_CASE("a GPU's energy is what NVML's counter moved by, over a second or more") {
  fake_nvml::Values& values = opened();
  values = {.energy_mj = 5'000'000};
  {
    const auto meter = platform::nvml::count_energy("0000:10:00.0");
    values.energy_mj += 1'000;
    CHECK_FALSE(meter->read().joules);
    CHECK_THAT(meter->read().source, Catch::Contains("needs 1 s"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1010));
    const EnergyReading r = meter->read();
    REQUIRE(r.joules);
    CHECK(*r.joules == Approx(1.0));
    CHECK(r.source == "NVML's energy counter");
    CHECK_THAT(r.counted, Catch::StartsWith("GPU 0000:10:00.0 of "));
    values.tells_energy = false;
    CHECK_THAT(meter->read().source, Catch::Contains("can no longer be read"));
    CHECK_THAT(platform::nvml::count_energy("0000:10:00.0")->read().source, Catch::Contains("has no energy counter"));
    CHECK_THAT(platform::nvml::count_energy("0000:77:00.0")->read().source, Catch::Contains("does not know the GPU"));
    CHECK_FALSE(platform::nvml::count_energy("0000:77:00.0")->read().joules);
    values.tells_energy = true;
    const auto stuck = platform::nvml::count_energy("0000:10:00.0");
    CHECK_FALSE(stuck->read().joules);
    CHECK_THAT(stuck->read().source, Catch::Contains("does not move"));
  }
  CHECK(values.sessions == 0);
  values = {};
}

TEST_CASE("a GPU's faults are read by NVML: ECC, rows, PCIe, NVLink, and Xids while it is watched") {
  fake_nvml::Values& values = opened();
  values = {.ecc_corrected = 7,
            .ecc_uncorrected = 2,
            .remapped = 3,
            .remap_pending = 1,
            .pcie_width = 8,
            .pcie_replays = 4,
            .links_up = 18,
            .link_errors = 1};
  CHECK(platform::nvml::watch_faults("0000:77:00.0") == nullptr);
  {
    const auto watch = platform::nvml::watch_faults("0000:10:00.0");
    REQUIRE(watch);
    const DeviceSignature s = watch->read();
    CHECK(s.serial == "1234567890");
    CHECK(s.vbios == "96.00.01");
    CHECK(s.ecc_corrected == 7);
    CHECK(s.ecc_uncorrected == 2);
    CHECK(s.remapped_rows == 3);
    CHECK(s.remap_pending == true);
    CHECK(s.remap_failed == false);
    CHECK(s.pcie_width == 8);
    CHECK(s.pcie_most_width == 16);
    CHECK(s.pcie_replays == 4);
    CHECK(s.nvlinks == 18);
    CHECK(s.nvlink_errors == 18 * 4);
    CHECK(s.xids.empty());
    values.next_xid = 79;
    CHECK(watch->read().xids == std::vector<std::int64_t>{79});
    CHECK(watch->read().xids == std::vector<std::int64_t>{79});  // it stays said
    // What came between two readings, whatever the counters had before.
    values.ecc_uncorrected = 5, values.remap_failed = 1, values.links_up = 17, values.next_xid = 48;
    const DeviceSignature later = watch->read();
    CHECK(new_faults(s, later) == std::vector<std::string>{"Xid 79", "Xid 48", "3 uncorrected ECC errors",
                                                           "a row of memory that could not be remapped"});
    CHECK(new_faults(later, later).empty());
    values.link_errors = 2;
    CHECK(new_faults(later, watch->read()) == std::vector<std::string>{"68 errors of NVLink"});
    values.tells_faults = false, values.links_up = 0;
    CHECK(new_faults(later, watch->read()).empty());
    CHECK_FALSE(watch->read().ecc_uncorrected);
    CHECK_FALSE(watch->read().remap_pending);
    CHECK_FALSE(watch->read().nvlinks);
  }
  CHECK(values.event_sets == 0);
  CHECK(values.sessions == 0);
  values = {};
}

TEST_CASE("a soak on a CPU's clocks has no words for heat or throttling, and its rows read as ever") {
  Soak soak;
  soak.seconds = 1;
  soak.steps = 2;
  soak.windows = {{.end_s = 1,
                   .steps = 2,
                   .median_ms = 3,
                   .worst_ms = 4,
                   .samples_per_s = 5,
                   .clock_mhz = 2400,
                   .least_clock_mhz = 2300,
                   .throttle = {}}};
  const auto json = soak_to_json(soak);
  CHECK_FALSE(json.contains("hottest_c"));
  CHECK_FALSE(json.contains("throttle"));
  CHECK(soak_from_json(nlohmann::json::parse(json.dump()), "test").windows[0].throttle.empty());
}
