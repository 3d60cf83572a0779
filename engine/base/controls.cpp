#include "engine/base/controls.h"

namespace mbench {

std::size_t control_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned c = byte(at);
  if (c < 0x20 || c == 0x7F) return 1;
  if (c == 0xC2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xA0) return 2;
  if (c < 0x80 || c >= 0xA0) return 0;
  // A byte 10xxxxxx, which continues a character or stands alone: the byte that begins it is 1 to 3 before, and wants as many.
  for (std::size_t back = 1; back <= 3 && back <= at; ++back) {
    if (continues(at - back)) continue;
    const unsigned first = byte(at - back);
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return back < length ? 0 : 1;
  }
  return 1;
}

std::string without_controls(std::string_view text) {
  return replace_controls(text, [](std::string_view) { return std::string(" "); });
}

}  // namespace mbench
