// Control characters, which a terminal or a spreadsheet may obey: where they are in a text, and the text without them. All text printed or
// written for people goes through this or printable() (engine/base/text.h).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace mbench {

// The length in bytes of the control character at text[at]; 0 where none begins. They are C0 with line ends and tabs, DEL, and C1, U+0080
// to U+009F. Terminals obey U+009B in C1 as they do ESC [. A C1 character is two bytes of UTF-8, or a single byte in text that is not
// UTF-8.
std::size_t control_length(std::string_view text, std::size_t at);

// For text within a document: a space in place of each control character.
std::string without_controls(std::string_view text);

// The text with each control character replaced by what `replace` makes of it.
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
