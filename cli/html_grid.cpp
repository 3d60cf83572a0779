#include "cli/html_grid.h"

#include "reports/page/html_text.h"

namespace mbench::cli {

std::string html_grid(const std::vector<std::string>& columns, const Rows& rows) {
  using reports::escape_html;
  constexpr std::size_t kLong = 40;  // characters: a sentence, which keeps its width on a phone
  std::string out = "<div class=wide tabindex=0><table><thead><tr>";
  for (const std::string& c : columns) out += "<th scope=col>" + escape_html(c) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += (i == 0                  ? "<th scope=row>"
              : row[i].size() > kLong ? "<td class=long>"
                                      : "<td>") +
             escape_html(row[i]) + (i == 0 ? "</th>" : "</td>");
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace mbench::cli
