// What a device's sensors report while it works: power, clocks, and what held the clocks down.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// Each null where the device does not report it.
struct Readings {
  std::optional<double> power_w;          // mean
  std::optional<double> utilization;      // mean share of time in which something ran
  std::optional<double> memory_mib;       // in use on the device, by all processes; the most that was seen
  std::optional<double> clock_mhz;        // mean, of the multiprocessors
  std::optional<double> temperature_c;    // of the chip; the most that was seen
  std::optional<std::uint32_t> throttle;  // bit i: kThrottleReasons[i] was seen
};

// In nvidia-smi's words (clocks_event_reasons.*).
struct ThrottleReason {
  std::string_view name;
  bool fault;  // no healthy machine shows it at work: too hot, or too little power
};
inline constexpr std::array<ThrottleReason, 8> kThrottleReasons{{{"applications_clocks_setting", false},
                                                                 {"sw_power_cap", false},
                                                                 {"hw_slowdown", true},
                                                                 {"sync_boost", false},
                                                                 {"sw_thermal_slowdown", true},
                                                                 {"hw_thermal_slowdown", true},
                                                                 {"hw_power_brake_slowdown", true},
                                                                 {"display_clocks_setting", false}}};

// The names of the bits; only of faults, if so asked.
std::vector<std::string> throttle_names(std::uint32_t bits, bool faults_only = false);

// Reads the sensors from its construction until its end, in the background.
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual Readings read() = 0;  // of the time since the construction
};

}  // namespace mbench
