// Text inside HTML: nothing in a name, a reason or a file can leave its element or attribute, and what is not
// UTF-8 is replaced.
#pragma once
#include <string>
#include <string_view>

namespace mbench::reports {

std::string escape_html(std::string_view text);

// A document of gnuplot's SVG terminal as an element of a page. Its label says what it shows; what the page does not use is removed.
// `prefix` makes its ids unique on the page.
std::string svg_element(std::string_view document, const std::string& prefix, const std::string& label);

}  // namespace mbench::reports
