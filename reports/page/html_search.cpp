#include "reports/page/html_search.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/page/html_text.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// The lines of an array of texts, each in an element.
std::string lines(const Json& record, const char* key, const char* element) {
  std::string out;
  const auto found = record.find(key);
  if (found == record.end() || !found->is_array()) return out;
  for (const Json& line : *found)
    if (line.is_string()) out += fmt::format("<{0}>{1}</{0}>\n", element, escape_html(line.get<std::string>()));
  return out;
}

std::string row(const Json& layout, double first_ms) {
  const double ms = layout.value("iteration_ms", 0.0), mib = layout.value("needed_mib", 0.0);
  return fmt::format("<tr><th scope=row>{}</th><td>{:.5g}</td><td>{:.1f}</td><td>{:.0f}</td></tr>\n",
                     escape_html(layout.value("layout", "")), ms, first_ms > 0 ? (ms / first_ms - 1) * 100 : 0.0, mib);
}

}  // namespace

std::string html_search(const Json& environment, int level) {
  if (!environment.is_object()) return "";
  const auto found = environment.find("search");
  if (found == environment.end() || !found->is_object()) return "";
  const Json& record = *found;
  std::string out =
      fmt::format("<h{0}>Answer</h{0}>\n<div class=answer>\n{1}</div>\n", level, lines(record, "answer", "p"));
  if (const auto counted = record.find("counted"); counted != record.end() && counted->is_string())
    out += "<p class=small>" + escape_html(counted->get<std::string>()) + "</p>\n";
  if (const auto front = record.find("front"); front != record.end() && front->is_array() && !front->empty()) {
    out += fmt::format(
        "<h{0}>Time against memory</h{0}>\n<p class=small>Each is the fastest of all layouts that take no more "
        "memory.</p>\n"
        "<div class=wide tabindex=0 role=region aria-label=\"Time against memory\"><table><thead><tr><th "
        "scope=col>Layout</th>"
        "<th scope=col>Time (ms)</th><th scope=col>Slower (%)</th><th scope=col>Memory "
        "(MiB)</th></tr></thead><tbody>\n",
        level);
    const double first = (*front)[0].is_object() ? (*front)[0].value("iteration_ms", 0.0) : 0.0;
    for (const Json& layout : *front)
      if (layout.is_object()) out += row(layout, first);
    out += "</tbody></table></div>\n";
  }
  if (const std::string left = lines(record, "left_out", "li"); !left.empty())
    out += "<details><summary>Layouts that were left out, and why</summary>\n<ul>\n" + left + "</ul></details>\n";
  return out;
}

}  // namespace mbench::reports
