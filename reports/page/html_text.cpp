#include "reports/page/html_text.h"

#include <algorithm>
#include <vector>

#include "engine/base/controls.h"

namespace mbench::reports {
namespace {

// Bytes of the UTF-8 character at the start of the text; 0 if it is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);  // no longer form than needed, no surrogates, none past the last plane
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
      (first == 0xF4 && second >= 0x90))
    return 0;
  return length;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The value of an attribute of the element that the text starts with.
std::string attribute(std::string_view element, std::string_view name) {
  const std::string_view tag = element.substr(0, element.find('>'));
  const std::size_t at = tag.find(std::string(name) + "=\"");
  if (at == std::string_view::npos) return "";
  const std::size_t begin = at + name.size() + 2;
  return std::string(tag.substr(begin, tag.find('"', begin) - begin));
}

// The id that a line of <defs> defines.
std::string defined_id(std::string_view line) {
  const std::size_t at = line.find("id='");
  if (at == std::string_view::npos) return "";
  const std::size_t end = line.find('\'', at + 4);
  return end == std::string_view::npos ? "" : std::string(line.substr(at + 4, end - at - 4));
}

// gnuplot defines every point shape it has; those that are drawn are enough. From the end, because a shape
// refers to those before it.
void drop_unused_definitions(std::vector<std::string>& lines) {
  std::size_t first = 0, last = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("<defs>") != std::string::npos) first = i;
    if (lines[i].find("</defs>") != std::string::npos) last = i;
  }
  std::string used;
  for (std::size_t i = last; i < lines.size(); ++i)
    if (lines[i].find("href=") != std::string::npos) used += lines[i];
  for (std::size_t i = last; i-- > first + 1;) {
    const std::string id = defined_id(lines[i]);
    if (!id.empty() && used.find("'#" + id + "'") != std::string::npos)
      used += lines[i];
    else
      lines[i].clear();
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char c = text[0];
    if (length == 0)
      out += "\uFFFD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if (c != '\n' && control_length(text, 0) > 0)
      out += ' ';
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string svg_element(std::string_view document, const std::string& prefix, const std::string& label) {
  const std::size_t begin = std::min(document.find("<svg"), document.size());
  document.remove_prefix(begin);
  const std::string box = attribute(document, "viewBox");
  document.remove_prefix(std::min(document.find('>') + 1, document.size()));
  std::vector<std::string> lines = lines_of(document);
  drop_unused_definitions(lines);
  std::erase_if(lines, [](const std::string& line) {
    return line.empty() || line.starts_with("<title>Gnuplot") || line.starts_with("<desc>");
  });
  std::string out = "<svg viewBox=\"" + box + "\" role=\"img\" aria-label=\"" + escape_html(label) + "\">\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool empty_group = lines[i].starts_with("<g ") && i + 1 < lines.size() && lines[i + 1] == "</g>" &&
                             lines[i].find("id=") == std::string::npos && lines[i].ends_with(">");
    if (empty_group)
      ++i;
    else
      out += lines[i] + "\n";
  }
  for (const char* id : {"gpPt", "gpDot"})
    for (const char* before : {"id='", "'#"}) replace_all(out, before + std::string(id), before + prefix + id);
  replace_all(out, "id=\"gnuplot_", "id=\"" + prefix);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

}  // namespace mbench::reports
