#include "engine/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/controls.h"
#include "engine/base/error.h"

namespace mbench {
namespace {

constexpr std::size_t kLongestWord = 200;  // a longer one is no misspelling, and the distance takes its time

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_choice(std::string_view got, const std::vector<std::string>& choices) {
  std::string text = "need one of ";
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, got.size() / 3) + 1;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    text += (i ? ", " : "") + choices[i];
    if (got.size() > kLongestWord) continue;
    const std::size_t d = edit_distance(got, choices[i]);
    if (d < best_distance) best_distance = d, best = &choices[i];
  }
  if (best) text += "; did you mean \"" + *best + "\"?";
  return text;
}

std::string nearest_choices(std::string_view got, std::vector<std::string> choices, std::size_t most) {
  if (choices.size() <= most) return nearest_choice(got, choices);
  const std::size_t others = choices.size() - most;
  // What holds all that was typed comes before what is spelt alike.
  const auto distance = [&](const std::string& choice) {
    return std::pair(choice.find(got) == std::string::npos, edit_distance(got.substr(0, kLongestWord), choice));
  };
  std::stable_sort(choices.begin(), choices.end(),
                   [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  choices.resize(most);
  std::string text = nearest_choice(got, choices);
  const std::size_t question = text.find("; did you mean");
  return text.insert(std::min(question, text.size()), fmt::format(" or {} other{}", others, others == 1 ? "" : "s"));
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::uint64_t parse_bytes(std::string_view text, std::string_view where) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, text.data() + text.size() - end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  static constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},     {"TB", 1e12}};
  constexpr double kMost = 1e18;
  if (error == std::errc{} && value >= 0)
    for (const auto& [name, factor] : units)
      if (unit == name && value * factor <= kMost) return static_cast<std::uint64_t>(value * factor);
  fail(ErrorKind::bad_input, where,
       "not a size in bytes, got \"{}\", need a number and B, KiB, MiB, GiB, TiB, KB, MB, GB or TB, at most 1e18 bytes",
       text);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return "n/a";
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 3600) return fmt::format("{} min {:02d} s", s / 60, s % 60);
  if (s < 2 * 86400) return fmt::format("{} h {:02d} min", s / 3600, s / 60 % 60);
  return fmt::format("{} days", s / 86400);
}

std::string printable(std::string_view text, std::size_t most) {
  std::string cut;
  if (text.size() > most) {
    // Between whole characters: a byte 10xxxxxx continues one.
    const auto begins = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80; };
    std::size_t head = most / 2, tail = text.size() - most / 2;
    while (head > 0 && !begins(head)) --head;
    while (tail < text.size() && !begins(tail)) ++tail;
    cut = fmt::format("{} ... {} bytes ... {}", text.substr(0, head), tail - head, text.substr(tail));
    text = cut;
  }
  return replace_controls(text, [](std::string_view control) {
    if (control == "\n" || control == "\t") return std::string(control);
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(control.back()));
  });
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

std::string nearest_divisors(std::int64_t got, std::int64_t n) {
  std::int64_t below = 1, above = 0;
  for (std::int64_t d = 1; d <= n && above == 0; ++d) {
    if (n % d != 0) continue;
    if (d < got) below = d;
    if (d > got) above = d;
  }
  return above == 0 || below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::string nearest_multiples(std::int64_t got, std::int64_t unit) {
  const std::int64_t below = got / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

}  // namespace mbench
