// NVML's bits in our words.
#include "engine/platform/nvml/sensors.h"
#include "test/catch.h"

using namespace mbench;
using Names = std::vector<std::string>;

TEST_CASE("what holds a clock down has nvidia-smi's names, and a GPU that idles is not held down") {
  CHECK(throttle_names(platform::nvml::throttle_bits(0)).empty());
  CHECK(throttle_names(platform::nvml::throttle_bits(0x1)).empty());  // idle
  CHECK(throttle_names(platform::nvml::throttle_bits(0x2)) == Names{"applications_clocks_setting"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x4)) == Names{"sw_power_cap"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x8)) == Names{"hw_slowdown"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x10)) == Names{"sync_boost"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x60)) == Names{"sw_thermal_slowdown", "hw_thermal_slowdown"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x80)) == Names{"hw_power_brake_slowdown"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x100)) == Names{"display_clocks_setting"});
  CHECK(platform::nvml::throttle_bits(0x600) == 0);  // of newer drivers, without a name here
}

TEST_CASE("heat and missing power are faults, a power cap is none") {
  CHECK(throttle_names(platform::nvml::throttle_bits(0x4 | 0x40), true) == Names{"hw_thermal_slowdown"});
  CHECK(throttle_names(platform::nvml::throttle_bits(0x2 | 0x4 | 0x10 | 0x100), true).empty());
}
