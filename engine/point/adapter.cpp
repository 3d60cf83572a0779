#include "engine/point/adapter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {
namespace {

constexpr std::int64_t kMostRank = 65536;

std::vector<std::string> all_targets() {
  return {std::begin(kAdapterTargets), std::end(kAdapterTargets)};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(at, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

template <class T>
bool read_number(const std::string& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> read_targets(const std::string& text, const std::string& where) {
  const std::vector<std::string> known = all_targets(), named = split(text, '+');
  for (const std::string& name : named)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(ErrorKind::bad_input, where, "no such target of an adapter, got \"{}\", {}", name,
           nearest_choice(name, known));
  std::vector<std::string> targets;
  for (const std::string& name : known)
    if (std::find(named.begin(), named.end(), name) != named.end()) targets.push_back(name);
  return targets;
}

constexpr std::pair<std::string_view, FrozenBase> kBases[] = {{"nf4", FrozenBase::nf4},
                                                              {"nf4-double", FrozenBase::nf4_double}};

FrozenBase read_base(const std::string& text, const std::string& where) {
  for (const auto& [name, base] : kBases)
    if (text == name) return base;
  fail(ErrorKind::bad_input, where, "no base of an adapter, got \"{}\", need nf4 or nf4-double", text);
}

}  // namespace

AdapterSpec read_adapter(const std::string& text, const std::string& where) {
  if (text == "none") return {};
  constexpr std::string_view kind = "lora:";
  const std::vector<std::string> parts = split(text, ',');
  AdapterSpec adapter;
  if (!parts[0].starts_with(kind) || !read_number(parts[0].substr(kind.size()), adapter.rank) || adapter.rank < 1 ||
      adapter.rank > kMostRank)
    fail(ErrorKind::bad_input, where,
         "no adapter, got \"{}\", need none or lora:RANK with a rank of 1 to {}, such as "
         "lora:16,alpha=32,targets=qkv+proj",
         text, kMostRank);
  adapter.alpha = static_cast<double>(adapter.rank);
  adapter.targets = all_targets();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string key = parts[i].substr(0, equals),
                      value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
    if (key == "targets") {
      adapter.targets = read_targets(value, where);
    } else if (key == "base") {
      adapter.base = read_base(value, where);
    } else if (key != "alpha") {
      fail(ErrorKind::bad_input, where,
           "no part of an adapter, got \"{}\", need alpha=NUMBER, targets=NAMES or base=NAME", parts[i]);
    } else if (!read_number(value, adapter.alpha) || !std::isfinite(adapter.alpha) || adapter.alpha <= 0) {
      fail(ErrorKind::bad_input, where, "no alpha of an adapter, got \"{}\", need a number above 0", value);
    }
  }
  return adapter;
}

std::string str(const AdapterSpec& adapter) {
  if (!adapter.on()) return "none";
  std::string text = fmt::format("lora:{}", adapter.rank);
  if (adapter.alpha != static_cast<double>(adapter.rank)) text += fmt::format(",alpha={}", adapter.alpha);
  if (adapter.targets != all_targets())
    for (std::size_t i = 0; i < adapter.targets.size(); ++i) text += (i ? "+" : ",targets=") + adapter.targets[i];
  for (const auto& [name, base] : kBases)
    if (adapter.base == base) text += fmt::format(",base={}", name);
  return text;
}

}  // namespace mbench
