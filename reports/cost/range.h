// A figure given by two bounds, and how people write one: "2.10", "1.9..2.5", "40GB/s", "2000h..3000h".
#pragma once
#include <string>
#include <string_view>

namespace mbench::reports {

struct Range {
  double low = 0, high = 0;
  bool exact() const { return low == high; }
  bool operator==(const Range&) const = default;
};

// What a figure counts, with the units that it may have; a bare number has the first one's meaning.
enum class Quantity {
  tokens,            // K, M, B, T: powers of 1000
  seconds,           // s, min or m, h, d
  bytes_per_second,  // GB/s, MB/s, TB/s, GiB/s; needs one
  plain              // none: money, watts
};

// A unit that stands only behind the high end holds for both. Throws bad_input at `where` for what is no positive number, has another
// unit, or has its ends the wrong way round.
Range read_range(std::string_view text, Quantity quantity, const std::string& where);

// "12.3", or "11.8 to 13.1"; `text` prints one end.
template <class Text>
std::string range_text(const Range& r, const Text& text) {
  const std::string low = text(r.low), high = text(r.high);
  return low == high ? low : low + " to " + high;
}

}  // namespace mbench::reports
