#include "reports/tables/text_width.h"

#include <utf8proc.h>

namespace mbench::reports {

std::size_t text_width(std::string_view utf8) {
  std::size_t width = 0;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  const auto* const end = at + utf8.size();
  while (at < end) {
    if (*at < 0x80) {
      ++width, ++at;
      continue;
    }
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(at, end - at, &character);
    if (bytes <= 0) {  // no UTF-8: a byte by itself
      ++width, ++at;
      continue;
    }
    width += static_cast<std::size_t>(utf8proc_charwidth(character));
    at += bytes;
  }
  return width;
}

}  // namespace mbench::reports
