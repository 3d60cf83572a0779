// Numbers as people read them, whatever a result file holds. Words replace what is not finite, and what is so large that its digits or
// percents say nothing.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <string>

namespace mbench::reports {

// "12.30"; "1e+308" from 1e15 on, where the digits are no longer those of the number; "not finite".
inline std::string fixed_text(double value, int decimals) {
  if (!std::isfinite(value)) return "not finite";
  return std::abs(value) >= 1e15 ? fmt::format("{:.4g}", value) : fmt::format("{:.{}f}", value, decimals);
}

// A change by that ratio that percents cannot express: "1e+308 times" from 10,000 times on, "not finite"; empty for all others.
inline std::string beyond_percent(double ratio) {
  if (!std::isfinite(ratio)) return "not finite";
  return std::abs(ratio) >= 1e4 ? fmt::format("{:.3g} times", ratio) : std::string();
}

}  // namespace mbench::reports
