// How wide a text is in a terminal or an editor, in columns, by utf8proc's tables of Unicode. East Asian wide characters and emoji take
// two. Combining marks and other characters without a width take none. What is not UTF-8 counts a column for each byte.
#pragma once
#include <cstddef>
#include <string_view>

namespace mbench::reports {

std::size_t text_width(std::string_view utf8);

}  // namespace mbench::reports
