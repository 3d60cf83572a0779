#include "reports/cost/range.h"

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "engine/base/error.h"

namespace mbench::reports {
namespace {

using Unit = std::pair<std::string_view, double>;

struct Units {
  std::span<const Unit> known;
  std::string_view words;  // for a message
};

constexpr Unit kTokens[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
constexpr Unit kSeconds[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
constexpr Unit kRates[] = {{"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"GiB/s", 1073741824.0}};
constexpr Unit kPlain[] = {{"", 1}};

Units units_of(Quantity q) {
  switch (q) {
    case Quantity::tokens:
      return {kTokens, "a number and K, M, B or T"};
    case Quantity::seconds:
      return {kSeconds, "a number and s, min, h or d"};
    case Quantity::bytes_per_second:
      return {kRates, "a number and MB/s, GB/s, TB/s or GiB/s"};
    case Quantity::plain:
      break;
  }
  return {kPlain, "a number"};
}

struct Figure {
  double value = 0;
  std::string_view unit;
};

[[noreturn]] void refuse(std::string_view text, const Units& units, const std::string& where) {
  fail(ErrorKind::bad_input, where, "not such a figure, got \"{}\", need {}, or two such as LOW..HIGH", text,
       units.words);
}

Figure read_figure(std::string_view text, std::string_view all, const Units& units, const std::string& where) {
  Figure f;
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, f.value);
  if (error != std::errc{} || !std::isfinite(f.value) || f.value <= 0) refuse(all, units, where);
  f.unit = std::string_view(end, static_cast<std::size_t>(stop - end));
  return f;
}

double scaled(const Figure& f, std::string_view all, const Units& units, const std::string& where) {
  for (const auto& [name, factor] : units.known)
    if (f.unit == name) return f.value * factor;
  refuse(all, units, where);
}

}  // namespace

Range read_range(std::string_view text, Quantity quantity, const std::string& where) {
  const Units units = units_of(quantity);
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const double value = scaled(read_figure(text, text, units, where), text, units, where);
    return {value, value};
  }
  Figure low = read_figure(text.substr(0, dots), text, units, where);
  const Figure high = read_figure(text.substr(dots + 2), text, units, where);
  if (low.unit.empty()) low.unit = high.unit;
  const Range r{scaled(low, text, units, where), scaled(high, text, units, where)};
  if (r.low > r.high) refuse(text, units, where);
  return r;
}

}  // namespace mbench::reports
