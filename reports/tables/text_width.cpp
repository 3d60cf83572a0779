#include "reports/tables/text_width.h"

#include <algorithm>
#include <cstdint>

namespace mbench::reports {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Combining marks, joiners, variation selectors and direction marks.
constexpr Range kNarrowest[] = {
    {0x0300, 0x036F},   {0x0483, 0x0489},   {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x06D6, 0x06DC},   {0x0900, 0x0902},   {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D},
    {0x0E31, 0x0E31},   {0x0E34, 0x0E3A},   {0x0E47, 0x0E4E}, {0x1160, 0x11FF}, {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF},   {0x200B, 0x200F},   {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20FF},
    {0x302A, 0x302D},   {0x3099, 0x309A},   {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF},
    {0x1F3FB, 0x1F3FF}, {0xE0100, 0xE01EF},
};
// Wide and full-width: Hangul, kana, CJK, full-width forms, emoji.
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615}, {0x26A1, 0x26A1},
    {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2E80, 0x303E},   {0x3041, 0x33FF}, {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},
    {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
};

template <std::size_t N>
bool within(const Range (&ranges)[N], std::uint32_t c) {
  const auto* range = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                       [](std::uint32_t x, const Range& r) { return x < r.first; });
  return range != std::begin(ranges) && c <= (range - 1)->last;
}

// The character at `at`, which moves behind it.
std::uint32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(at++);
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  if (more == 0) return first;
  std::uint32_t c = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    if (at + static_cast<std::size_t>(i) >= text.size() ||
        (byte(at + static_cast<std::size_t>(i)) & 0xC0) != 0x80)
      return first;  // no UTF-8: a byte by itself
    c = c << 6 | (byte(at + static_cast<std::size_t>(i)) & 0x3F);
  }
  at += static_cast<std::size_t>(more);
  return c;
}

}  // namespace

std::size_t text_width(std::string_view utf8) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < utf8.size();) {
    const std::uint32_t c = next_character(utf8, at);
    if (c < 0x300)
      ++width;
    else if (!within(kNarrowest, c))
      width += within(kWide, c) ? 2 : 1;
  }
  return width;
}

}  // namespace mbench::reports
