#include "api/trainer_flags.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <sstream>

#include "engine/base/error.h"
#include "engine/point/fields.h"
#include "engine/point/point.h"
#include "formats/formats.h"

namespace mbench::api {
namespace {

std::optional<formats::Target> target_of(const std::string& framework) {
  if (framework == "megatron-core") return formats::Target::megatron;
  if (framework == "torchtitan") return formats::Target::torchtitan;
  return std::nullopt;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The same training on one device, with another batch: what its export says too is not of the layout.
std::set<std::string> said_anyway(const Point& point, formats::Target target) {
  Point plain = without(point, {FieldKind::layout});
  plain.framework = point.framework;
  plain.global_batch = plain.micro_batch = point.micro_batch + 1;
  plain.overlap_grad_reduce = false;  // Megatron-LM has --overlap-param-gather only next to its flag
  try {
    const std::vector<std::string> lines = lines_of(formats::export_point(plain, target));
    return {lines.begin(), lines.end()};
  } catch (const Error&) {
    return {};  // then all lines are printed
  }
}

// Of a script, the flags.
std::string flags_of(const std::vector<std::string>& lines, const std::set<std::string>& anyway) {
  std::string text;
  for (const std::string& line : lines) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.compare(begin, 2, "--") != 0 || anyway.contains(line)) continue;
    const std::size_t end = line.find_last_not_of(" \\");
    text += line.substr(begin, end + 1 - begin) + "\n";
  }
  return text;
}

// Of a TOML, the keys below the names of their sections.
std::string keys_of(const std::vector<std::string>& lines, const std::set<std::string>& anyway) {
  std::string text, section;
  for (const std::string& line : lines) {
    if (line.starts_with('[')) section = line + "\n";
    if (line.empty() || line.starts_with('#') || line.starts_with('[') || anyway.contains(line)) continue;
    text += section + line + "\n";
    section.clear();
  }
  return text;
}

}  // namespace

std::string trainer_flags(const Point& point, bool* whole) {
  if (whole) *whole = true;
  const auto target = target_of(point.framework.preset);
  if (!target) return "";
  std::string text = fmt::format("## The best as settings of {}\n\n", point.framework.preset);
  std::vector<std::string> lines;
  try {
    lines = lines_of(formats::export_point(point, *target));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    if (whole) *whole = false;
    return text + fmt::format("Not all of it can be set: {}\n", e.what());
  }
  const std::set<std::string> anyway = said_anyway(point, *target);
  return text + "```\n" + (*target == formats::Target::megatron ? flags_of(lines, anyway) : keys_of(lines, anyway)) +
         "```\n";
}

}  // namespace mbench::api
