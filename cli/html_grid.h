// A plain table inside a page of reports/page.
#pragma once
#include <string>
#include <vector>

namespace mbench::cli {

using Rows = std::vector<std::vector<std::string>>;

// Text is escaped; the first column names the row. It scrolls by itself where the page is narrower.
std::string html_grid(const std::vector<std::string>& columns, const Rows& rows);

}  // namespace mbench::cli
