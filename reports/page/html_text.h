// Text inside HTML: nothing in a name, a reason or a file can leave its element or attribute, and what is not
// UTF-8 is replaced.
#pragma once
#include <string>
#include <string_view>

namespace mbench::reports {

std::string escape_html(std::string_view text);

// A document of gnuplot's SVG terminal as an element of a page, with what it shows as its label, and without what the page does not
// use. `prefix` makes its ids unique on the page.
std::string svg_element(std::string_view document, const std::string& prefix, const std::string& label);

}  // namespace mbench::reports
