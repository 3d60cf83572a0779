// What an option of seconds may be. CLI::Range and CLI::PositiveNumber let NaN through, which compares false with
// every time: a limit that never comes.
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <string>

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

}  // namespace mbench::cli
