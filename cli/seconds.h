// What an option of seconds, or of another number, may be. CLI::Range and CLI::PositiveNumber let NaN through, which compares false with
// every time: a limit that never comes.
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.h"

namespace mbench::cli {

inline auto seconds_between(double low, double high) {
  return [=](const std::string& text) {
    double x = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    const bool number = error == std::errc{} && end == text.data() + text.size();
    return number && x >= low && x <= high
               ? std::string()
               : fmt::format("not such a time, got {}, need seconds from {} to {}", text, low, high);
  };
}

// Likewise of a number that is no time.
inline auto number_between(double low, double high) {
  return [=](const std::string& text) {
    double x = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    const bool number = error == std::errc{} && end == text.data() + text.size();
    return number && x >= low && x <= high
               ? std::string()
               : fmt::format("not such a number, got {}, need one from {} to {}", text, low, high);
  };
}

// Seconds of "90", "90s", "15m" or "15min", "8h", "2d", more than none and a year at most; throws bad_input naming `where` otherwise.
inline double parse_duration(const std::string& text, std::string_view where) {
  constexpr double kMost = 366 * 86400.0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1},     {"s", 1},    {"m", 60},
                                                                  {"min", 60}, {"h", 3600}, {"d", 86400}};
  if (error == std::errc{} && value > 0 && std::isfinite(value))
    for (const auto& [name, factor] : units)
      if (unit == name && value * factor <= kMost) return value * factor;
  fail(ErrorKind::bad_input, where, "not a time, got \"{}\", need a number and s, min, h or d, a year at most", text);
}

}  // namespace mbench::cli
