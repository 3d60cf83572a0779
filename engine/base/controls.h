// Control characters, which a terminal or a spreadsheet may obey: where they stand in a text, and the text without them. Whatever is printed
// or written for people goes by these or by printable() (engine/base/text.h).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace mbench {

// How many bytes the control character at text[at] has; 0 where none begins. C0 with line ends and tabs, DEL, and C1, U+0080 to U+009F,
// of which terminals obey U+009B as they do ESC [: two bytes of UTF-8, or in what is no UTF-8 the single byte.
std::size_t control_length(std::string_view text, std::size_t at);

// For text that stands within a document: a space in place of each control character.
std::string without_controls(std::string_view text);

// The text with what `replace` makes of each control character in its place.
template <class Replace>
std::string replace_controls(std::string_view text, const Replace& replace) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = control_length(text, i);
    if (length > 0)
      out += replace(text.substr(i, length));
    else
      out += text[i];
    i += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace mbench
