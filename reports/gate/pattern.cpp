#include "reports/gate/pattern.h"

#include <fmt/format.h>

#include <cmath>

#include "reports/records/levels.h"

namespace mbench::reports {
namespace {

constexpr double kLeastReported = 0.01;
constexpr std::size_t kLeastForLevels = 10;

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

}  // namespace

std::string slow_pattern(const SlowSteps& slow) {
  if (slow.at.empty()) return "";
  const std::string size = times(slow.size);
  if (slow.period > 0) return fmt::format("every {} step at {}", ordinal(slow.period), size);
  if (slow.episodes == 1) {
    const std::size_t first = slow.at.front() + 1, last = slow.at.back() + 1;
    return first == last ? fmt::format("step {} at {}, once", first, size)
                         : fmt::format("steps {} to {} at {}, once", first, last, size);
  }
  const double share = 100 * static_cast<double>(slow.at.size()) / static_cast<double>(slow.samples);
  return fmt::format("{:.{}f} % of steps at {}", share, share < 1 ? 2 : share < 9.95 ? 1 : 0, size);
}

std::string warm_up_pattern(const SlowSteps& slow) {
  if (slow.warm_up == 0) return "";
  return slow.warm_up == 1 ? fmt::format("the first step at {}", times(slow.warm_up_size))
                           : fmt::format("the first {} steps at {}", slow.warm_up, times(slow.warm_up_size));
}

std::string pattern_of(const std::vector<double>& samples, const SlowSteps& slow) {
  if (slow.recurs()) return slow_pattern(slow);
  std::vector<double> logs;
  std::vector<std::size_t> steps;  // which they are
  std::size_t next = 0;
  for (std::size_t i = slow.warm_up; i < samples.size(); ++i) {
    if (next < slow.at.size() && slow.at[next] == i) {
      ++next;
      continue;
    }
    logs.push_back(std::log(samples[i]));
    steps.push_back(i);
  }
  if (logs.size() < kLeastForLevels) return slow_pattern(slow);
  const Levels levels = levels_of(logs, 3, false);
  const double step = std::expm1(levels.after - levels.before);
  if (levels.is_step() && std::abs(step) >= kLeastReported)
    return fmt::format("from step {} on {:+.1f} %", steps[levels.at] + 1, step * 100);
  const double slope = std::expm1(levels.slope);
  if (levels.is_line() && std::abs(levels.slope) * static_cast<double>(logs.size()) >= kLeastReported)
    return fmt::format("{} {:.2g} % a step", slope > 0 ? "rising" : "falling", std::abs(slope) * 100);
  return slow_pattern(slow);
}

}  // namespace mbench::reports
