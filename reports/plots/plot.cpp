#include "reports/plots/plot.h"

#include <map>

namespace mbench::reports {

std::string plot_slug(std::string_view text) {
  constexpr std::size_t kLongest = 100, kTail = 60;  // what tells plots apart often stands at the end
  std::string slug;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || upper)
      slug += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  if (slug.size() > kLongest)
    slug = plot_slug(slug.substr(0, kLongest - kTail - 1)) + "-" + plot_slug(slug.substr(slug.size() - kTail));
  return slug.empty() ? "plot" : slug;
}

void make_names_unique(std::vector<Plot>& plots) {
  std::map<std::string, int> seen;
  for (Plot& plot : plots) {
    const std::string wanted = plot.name;
    for (int n = ++seen[wanted]; n > 1; n = ++seen[wanted]) {
      const std::string name = wanted + "-" + std::to_string(n);
      if (seen.count(name)) continue;
      seen[name] = 1;
      plot.name = name;
      break;
    }
  }
}

}  // namespace mbench::reports
