#include "formats/megatron/layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

namespace mbench::formats {
namespace {

using nlohmann::json;

// "[0,1,1]*2+[1]", as Python reads it but for brackets that only group.
std::vector<int> expression(std::string text, std::int64_t layers) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) || c == '(' || c == ')' || c == '"' || c == '\''; });
  std::vector<int> all;
  for (std::size_t at = 0; at < text.size();) {
    std::vector<int> part;
    if (text[at] != '[') return {};
    for (++at; at < text.size() && text[at] != ']'; ++at) {
      if (text[at] == ',') continue;
      if (text[at] != '0' && text[at] != '1') return {};
      part.push_back(text[at] - '0');
    }
    if (at++ >= text.size()) return {};
    std::int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      times = 0;
      for (++at; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
        times = std::min<std::int64_t>(times * 10 + (text[at] - '0'), layers + 1);
    }
    if (static_cast<std::int64_t>(all.size()) + times * static_cast<std::int64_t>(part.size()) > layers) return {};
    for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
    if (at < text.size() && text[at] != '+') return {};
    if (at < text.size()) ++at;
  }
  return static_cast<std::int64_t>(all.size()) == layers ? all : std::vector<int>{};
}

}  // namespace

std::vector<int> layer_pattern(const json& given, std::int64_t layers, bool last_is_zero) {
  std::vector<int> all(static_cast<std::size_t>(layers));
  if (given.is_array()) {
    if (given.size() != all.size()) return {};
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (given[i] != 0 && given[i] != 1) return {};
      all[i] = given[i].get<int>();
    }
    return all;
  }
  if (given.is_string()) return expression(given.get<std::string>(), layers);
  if (!given.is_number_integer() || given.get<std::int64_t>() < 1) return {};
  const std::int64_t every = given.get<std::int64_t>();
  for (std::int64_t i = 0; i < layers; ++i)
    all[static_cast<std::size_t>(i)] = last_is_zero ? (i + 1) % every != 0 : i % every == 0;
  return all;
}

std::vector<std::int64_t> layers_that_are(const std::vector<int>& pattern, int value) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] == value) all.push_back(static_cast<std::int64_t>(i));
  return all;
}

std::string pattern_text(const std::vector<bool>& zeros) {
  std::string text;
  for (std::size_t i = 0; i < zeros.size();) {
    std::size_t end = i;
    while (end < zeros.size() && zeros[end] == zeros[i]) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", zeros[i] ? 0 : 1, end - i);
    i = end;
  }
  return "(" + text + ")";
}

std::vector<std::int64_t> two_sides(const json& given) {
  std::vector<std::int64_t> sides;
  if (given.is_array()) {
    for (const json& each : given)
      if (each.is_number_integer()) sides.push_back(each.get<std::int64_t>());
    return sides.size() == given.size() ? sides : std::vector<std::int64_t>{};
  }
  if (!given.is_string()) return {};
  std::string text = given.get<std::string>();
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) || c == '(' || c == ')' || c == '[' || c == ']'; });
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t side = 0;
    const auto read = std::from_chars(text.data() + begin, text.data() + end, side);
    if (read.ec != std::errc() || read.ptr != text.data() + end) return {};
    sides.push_back(side);
    begin = end + 1;
  }
  return sides;
}

}  // namespace mbench::formats
