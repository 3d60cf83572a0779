// How wide a text stands in a terminal or an editor, in columns: East Asian wide characters and emoji take
// two, combining marks and other characters without a width none, as utf8proc's tables of Unicode have it; what is not
// UTF-8 counts a column for each byte.
#pragma once
#include <cstddef>
#include <string_view>

namespace mbench::reports {

std::size_t text_width(std::string_view utf8);

}  // namespace mbench::reports
