#include "engine/base/fast_json.h"

#include <charconv>

namespace mbench {
namespace {

constexpr int kDeepest = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void FastJson::skip_space() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

bool FastJson::take(char c) {
  skip_space();
  if (at_ == end_ || *at_ != c) return false;
  ++at_;
  return true;
}

bool FastJson::at_end() {
  skip_space();
  return at_ == end_;
}

bool FastJson::string(std::string& out) {
  if (!take('"')) return false;
  const char* begin = at_;
  bool plain = true;
  for (; at_ < end_ && *at_ != '"'; ++at_) {
    const auto c = static_cast<unsigned char>(*at_);
    if (c < 0x20) return false;
    if (c == '\\' && ++at_ == end_) return false;
    plain = plain && c != '\\' && c < 0x80;
  }
  if (at_ == end_) return false;
  if (plain) {
    out.assign(begin, at_);
    ++at_;
    return true;
  }
  // Escapes and UTF-8 are for the real parser: such strings are few and short.
  ++at_;
  const auto parsed = nlohmann::json::parse(begin - 1, at_, nullptr, false);
  if (!parsed.is_string()) return false;
  out = parsed.get<std::string>();
  return true;
}

template <class Json>
bool FastJson::read_number(Json& out) {
  const char* begin = at_;
  const bool negative = *at_ == '-';
  if (negative) ++at_;
  const auto digits = [&] {
    const char* first = at_;
    while (at_ < end_ && is_digit(*at_)) ++at_;
    return at_ - first;
  };
  const char* first = at_;
  const auto whole = digits();
  if (whole == 0 || (whole > 1 && *first == '0')) return false;
  bool integer = true;
  if (at_ < end_ && *at_ == '.') {
    ++at_, integer = false;
    if (digits() == 0) return false;
  }
  if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_, integer = false;
    if (at_ < end_ && (*at_ == '-' || *at_ == '+')) ++at_;
    if (digits() == 0) return false;
  }
  const auto convert = [&](auto number) {
    const auto [end, error] = std::from_chars(begin, at_, number);
    out = number;
    return error == std::errc{} && end == at_;
  };
  if (!integer) return convert(double{});
  return negative ? convert(std::int64_t{}) : convert(std::uint64_t{});
}

template <class Json>
bool FastJson::read_word(std::string_view word, Json meaning, Json& out) {
  if (static_cast<std::size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word)
    return false;
  at_ += word.size();
  out = std::move(meaning);
  return true;
}

template <class Json>
bool FastJson::read_object(Json& out, int depth) {
  out = Json::object();
  if (take('}')) return true;
  auto& members = out.template get_ref<typename Json::object_t&>();
  std::string key;
  do {
    if (!string(key) || !take(':')) return false;
    const auto [it, fresh] = members.emplace(std::move(key), Json());
    if (!fresh || !read(it->second, depth)) return false;
  } while (take(','));
  return take('}');
}

template <class Json>
bool FastJson::read_array(Json& out, int depth) {
  out = Json::array();
  if (take(']')) return true;
  auto& items = out.template get_ref<typename Json::array_t&>();
  do {
    if (!read(items.emplace_back(), depth)) return false;
  } while (take(','));
  return take(']');
}

template <class Json>
bool FastJson::read(Json& out, int depth) {
  skip_space();
  if (at_ == end_ || depth > kDeepest) return false;
  switch (*at_) {
    case '{':
      ++at_;
      return read_object(out, depth + 1);
    case '[':
      ++at_;
      return read_array(out, depth + 1);
    case '"': {
      std::string text;
      if (!string(text)) return false;
      out = std::move(text);
      return true;
    }
    case 't':
      return read_word<Json>("true", true, out);
    case 'f':
      return read_word<Json>("false", false, out);
    case 'n':
      return read_word<Json>("null", nullptr, out);
    default:
      return (*at_ == '-' || is_digit(*at_)) && read_number(out);
  }
}

bool FastJson::value(nlohmann::json& out) {
  return read(out, 0);
}

bool FastJson::value(nlohmann::ordered_json& out) {
  return read(out, 0);
}

}  // namespace mbench
