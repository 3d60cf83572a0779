#include "engine/base/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/text.h"

namespace mbench {
namespace {

using Words = std::vector<std::string>;

// What model cards add to a name and no size depends on.
constexpr std::string_view kWithoutSizes[] = {"hf",   "instruct", "chat", "base", "it",  "meta",
                                              "v0.1", "v0.2",     "v0.3", "bf16", "fp16"};

bool without_sizes(const std::string& word) {
  return std::find(std::begin(kWithoutSizes), std::end(kWithoutSizes), word) != std::end(kWithoutSizes);
}

// "sxm" begins "sxm5" and "80" "80gb"; "8" does not begin "80".
bool begins(const std::string& word, const std::string& got) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  return word.starts_with(got) && (word.size() == got.size() || !digit(got.back()) || !digit(word[got.size()]));
}

// The first word is the device itself: an H20 is no H200, and an L40 no L40S.
bool has_each(const Words& name, const Words& got) {
  if (name.empty() || name.front() != got.front()) return false;
  std::size_t at = 0;
  for (const std::string& word : got) {
    while (at < name.size() && !begins(name[at], word)) ++at;
    if (at == name.size()) return false;
    ++at;
  }
  return true;
}

// Whether the words of `name` stand in `got` in their order, and all others have no meaning.
bool stands_in(const Words& name, const Words& got) {
  std::size_t at = 0;
  for (const std::string& word : got)
    if (at < name.size() && word == name[at])
      ++at;
    else if (!without_sizes(word))
      return false;
  return at == name.size();
}

// Who makes a device and the line it is sold in, before the device itself: "NVIDIA GeForce RTX 4090" is the 4090.
Words without_maker(Words words) {
  constexpr std::string_view kMakers[] = {"nvidia", "geforce", "rtx", "tesla", "amd", "instinct"};
  while (words.size() > 1 && std::find(std::begin(kMakers), std::end(kMakers), words.front()) != std::end(kMakers))
    words.erase(words.begin());
  return words;
}

}  // namespace

Words words_of_name(std::string_view name) {
  Words words(1);
  for (const char c : name)
    if (c == '-' || c == '_' || c == '/' || c == ' ') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::vector<std::string> names_with(std::string_view got, const std::vector<std::string>& names) {
  const Words wanted = without_maker(words_of_name(got));
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const std::string& name : names)
    if (has_each(without_maker(words_of_name(name)), wanted)) found.push_back(name);
  for (const std::string& name : found)
    if (std::all_of(found.begin(), found.end(), [&](const std::string& other) { return other.starts_with(name); }))
      return {name};
  return found;
}

std::string name_within(std::string_view got, const std::vector<std::string>& names) {
  const std::size_t owner = got.rfind('/');
  const Words words = words_of_name(owner == std::string_view::npos ? got : got.substr(owner + 1));
  std::string best;
  for (const std::string& name : names)
    if (name.size() > best.size() && stands_in(words_of_name(name), words)) best = name;
  return best;
}

std::string nearest_name(std::string_view got, const std::vector<std::string>& names) {
  const Words wanted = words_of_name(got);  // with the maker: of "rtx" all that are sold as such
  std::vector<std::string> alike;
  if (!wanted.empty())
    for (const std::string& name : names)
      if (const Words words = words_of_name(name); words.front() == wanted.front()) alike.push_back(name);
  if (alike.empty()) return nearest_choice(got, names);
  std::string text = "need one of ", nearest;
  for (const std::string& name : names) text += (text.ends_with(' ') ? "" : ", ") + name;
  for (const std::string& name : alike) nearest += fmt::format("{}\"{}\"", nearest.empty() ? "" : " or ", name);
  return text + "; did you mean " + nearest + "?";
}

}  // namespace mbench
