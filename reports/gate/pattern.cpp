#include "reports/gate/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kLeastReported = 0.01;
constexpr std::size_t kLeastForLevels = 10;
constexpr double kNearlyAll = 0.9, kMostOfSide = 2.0 / 3;

std::string ordinal(std::size_t n) {
  const std::size_t tens = n % 100, ones = n % 10;
  const char* ending = tens >= 11 && tens <= 13 ? "th" : ones == 1 ? "st" : ones == 2 ? "nd" : ones == 3 ? "rd" : "th";
  return fmt::format("{}{}", n, ending);
}

// "3.0x"; more digits where a factor is near 1.
std::string times(double factor) {
  return factor < 1.5   ? fmt::format("{:.2f}x", factor)
         : factor < 100 ? fmt::format("{:.1f}x", factor)
                        : fmt::format("{:.3g}x", factor);
}

// "from step 12 on +8.0 %", "from step 12 on at 3.0x".
std::string change_of(double factor) {
  return factor < 2 ? fmt::format("{:+.1f} %", (factor - 1) * 100) : "at " + times(factor);
}
std::string from_step(std::size_t first, double factor) {
  return fmt::format("from step {} on {}", first, change_of(factor));
}
std::string until_step(std::size_t last, double factor) {
  return fmt::format("until step {} {}", last, change_of(factor));
}

// Whether slow steps are what a level looks like whose noise reaches the limit: nearly all on its slower side, and most of that side.
bool is_side_of(const Levels& levels, const SlowSteps& slow) {
  const std::size_t change = slow.warm_up + levels.at;  // the first step of the new level
  const auto later =
      static_cast<double>(std::count_if(slow.at.begin(), slow.at.end(), [&](std::size_t i) { return i >= change; }));
  const bool slower_later = levels.after > levels.before;
  const double count = static_cast<double>(slow.at.size()), on_side = slower_later ? later : count - later;
  const std::size_t side = slower_later ? slow.samples - levels.at : levels.at;
  return on_side >= kNearlyAll * count && on_side >= kMostOfSide * static_cast<double>(side);
}

// The level of these steps, if it changes or rises; empty if not, or if the slow steps say more.
std::string level_pattern(const std::vector<double>& samples, const std::vector<std::size_t>& steps,
                          const SlowSteps* slow) {
  if (steps.size() < kLeastForLevels) return "";
  std::vector<double> logs;
  for (const std::size_t i : steps) logs.push_back(std::log(samples[i]));
  const Levels levels = levels_of(logs, 3, false);
  const double step = std::expm1(levels.after - levels.before);
  if (levels.is_step() && std::abs(step) >= kLeastReported && (!slow || is_side_of(levels, *slow)))
    return slow && step < 0 ? until_step(steps[levels.at - 1] + 1, 1 / (1 + step))
                            : from_step(steps[levels.at] + 1, 1 + step);
  const double slope = std::expm1(levels.slope);
  const bool may_rise = !slow || slow->reaches_end() || slow->from_start();
  if (levels.is_line() && may_rise && std::abs(levels.slope) * static_cast<double>(logs.size()) >= kLeastReported)
    return fmt::format("{} {:.2g} % a step", slope > 0 ? "rising" : "falling", std::abs(slope) * 100);
  return "";
}

}  // namespace

std::string slow_pattern(const SlowSteps& slow) {
  if (slow.at.empty()) return "";
  const std::string size = times(slow.size);
  if (slow.period > 0) return fmt::format("every {} step at {}", ordinal(slow.period), size);
  const std::size_t first = slow.at.front() + 1, last = slow.at.back() + 1;
  if (slow.is_spike()) return fmt::format("step {} at {}, once", first, size);
  if (slow.reaches_end()) return from_step(first, slow.size);
  if (slow.from_start()) return until_step(last, slow.size);
  if (slow.is_episode()) return fmt::format("steps {} to {} at {}, once", first, last, size);
  const double share = 100 * static_cast<double>(slow.at.size()) / static_cast<double>(slow.samples);
  return fmt::format("{:.{}f} % of steps at {}", share, share < 1 ? 2 : share < 9.95 ? 1 : 0, size);
}

std::string warm_up_pattern(const SlowSteps& slow) {
  if (slow.warm_up == 0) return "";
  return slow.warm_up == 1 ? fmt::format("the first step at {}", times(slow.warm_up_size))
                           : fmt::format("the first {} steps at {}", slow.warm_up, times(slow.warm_up_size));
}

std::string pattern_of(const std::vector<double>& samples, const SlowSteps& slow) {
  if (slow.period > 0) return slow_pattern(slow);
  const bool recur = !slow.at.empty() && !slow.is_spike();
  std::vector<std::size_t> steps;  // in which a level is looked for: one spike is none of it
  for (std::size_t i = slow.warm_up; i < samples.size(); ++i)
    if (!slow.is_spike() || i != slow.at[0]) steps.push_back(i);
  const std::string level = level_pattern(samples, steps, recur ? &slow : nullptr);
  return level.empty() ? slow_pattern(slow) : level;
}

}  // namespace mbench::reports
