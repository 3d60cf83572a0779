// What a soak measured: a point that was trained for hours, as windows of time. A row stays as small as one of a short run: it has about
// 120 windows at most, with a few figures each.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench {

// The approximate number of windows. Each ends with the step that runs when its time is over.
inline constexpr int kSoakWindows = 120;
// The shortest length of a window, in seconds.
inline constexpr double kShortestWindow = 0.5;

struct SoakWindow {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double end_s = 0;  // since the first measured step began
  std::int64_t steps = 0;
  double median_ms = 0, worst_ms = 0;  // of its steps on the slowest rank
  double samples_per_s = 0;            // samples trained over the time of its steps
  // Of the ranks' devices, means over the window: the mean of the ranks, and the lowest of them. NaN where devices do not report them.
  double clock_mhz = unknown, least_clock_mhz = unknown, power_w = unknown;
  double hottest_c = unknown;  // the hottest device at its hottest
  std::string throttle;        // what held a clock down, in nvidia-smi's words, or "none"; empty: unknown
};

struct Soak {
  double seconds = 0;  // of all of it, with the time between steps
  std::int64_t steps = 0;
  std::vector<SoakWindow> windows;
};

// {"seconds", "steps", and an array over windows for each of: "end_s", "window_steps", "median_ms", "worst_ms", "samples_per_s",
// "clock_mhz", "least_clock_mhz", "power_w", "hottest_c", "throttle"}. The last five are missing if no window has them.
nlohmann::ordered_json soak_to_json(const Soak& soak);
Soak soak_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace mbench
