// The frame of every page: style, script and title around what is on it.
#pragma once
#include <string>

namespace mbench::reports {

// A whole page of this look around `body`, which is HTML; the title is escaped.
std::string html_document(const std::string& title, const std::string& body);

}  // namespace mbench::reports
