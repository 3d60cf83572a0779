#include "reports/cell_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.h"

namespace mbench {
namespace {

[[noreturn]] void malformed(std::string_view where, std::string_view what, std::string_view got) {
  fail(ErrorKind::bad_input, where,
       "{}, got \"{}\", need text with values as {{name}}, {{name:2}}, {{name:,0}}, {{name/1024:1}}", what,
       got);
}

// "name*2:,1s" without its braces.
CellText::Part parse_value(std::string_view inside, std::string_view where) {
  CellText::Part part;
  std::string_view rest = inside;
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view format = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!format.empty() && format.front() == '+') part.plus = true, format.remove_prefix(1);
    if (!format.empty() && format.front() == ',') part.thousands = true, format.remove_prefix(1);
    part.significant = !format.empty() && format.back() == 's';
    if (part.significant) format.remove_suffix(1);
    const auto [end, error] = std::from_chars(format.data(), format.data() + format.size(), part.digits);
    if (error != std::errc{} || end != format.data() + format.size() ||
        part.digits < (part.significant ? 1 : 0) || part.digits > 15)
      malformed(where, "not a number format", inside);
  }
  const std::size_t op = rest.find_first_of("*/");
  if (op != std::string_view::npos) {
    const std::string_view factor = rest.substr(op + 1);
    const auto [end, error] = std::from_chars(factor.data(), factor.data() + factor.size(), part.scale);
    if (error != std::errc{} || end != factor.data() + factor.size() || part.scale == 0)
      malformed(where, "not a factor", inside);
    if (rest[op] == '/') part.scale = 1 / part.scale;
    rest = rest.substr(0, op);
  }
  if (rest.empty() || rest.find(' ') != std::string_view::npos) malformed(where, "not a name", inside);
  part.name = rest;
  return part;
}

}  // namespace

CellText CellText::parse(std::string_view text, std::string_view where) {
  CellText result;
  int group = 0, groups = 0;
  std::string literal;
  const auto flush = [&] {
    if (literal.empty()) return;
    Part part;
    part.literal = std::move(literal);
    part.group = group;
    result.parts_.push_back(std::move(part));
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if ((c == '{' || c == '}' || c == '[' || c == ']') && doubled) {
      literal += c;
      ++i;
    } else if (c == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) malformed(where, "a { without its }", text);
      flush();
      Part part = parse_value(text.substr(i + 1, end - i - 1), where);
      part.group = group;
      result.parts_.push_back(std::move(part));
      i = end;
    } else if (c == '[') {
      if (group) malformed(where, "a [ inside [ ]", text);
      flush();
      group = ++groups;
    } else if (c == ']') {
      if (!group) malformed(where, "a ] without its [", text);
      flush();
      group = 0;
    } else if (c == '}') {
      malformed(where, "a } without its {", text);
    } else {
      literal += c;
    }
  }
  if (group) malformed(where, "a [ without its ]", text);
  flush();
  return result;
}

std::vector<std::string> CellText::names() const {
  std::vector<std::string> names;
  for (const Part& part : parts_)
    if (!part.name.empty()) names.push_back(part.name);
  return names;
}

std::string with_thousands(const std::string& digits) {
  const std::size_t end = std::min(digits.find('.'), digits.size());
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (i < end && after_digit && (end - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

int Formatter::decimals(const CellText::Part& part) {
  if (!part.significant) return part.digits;
  // A spread is as precise as the mean it belongs to.
  std::string name = part.name;
  if (const std::size_t at = name.rfind(".stddev"); at != std::string::npos && at + 7 == name.size())
    name = name.substr(0, at);
  const std::string key = fmt::format("{}*{}:{}", name, part.scale, part.digits);
  if (const auto it = decimals_.find(key); it != decimals_.end()) return it->second;
  double smallest = 0;
  for (const Record* record : records_) {
    const auto value = record->value(name);
    if (!value.is_number()) continue;
    const double x = std::abs(value.get<double>() * part.scale);
    if (x > 0 && std::isfinite(x) && (smallest == 0 || x < smallest)) smallest = x;
  }
  const int exponent = smallest > 0 ? static_cast<int>(std::floor(std::log10(smallest))) : 0;
  return decimals_[key] = std::clamp(part.digits - 1 - exponent, 0, 6);
}

std::string Formatter::number(double value, const CellText::Part& part) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{:.{}f}", value * part.scale, decimals(part));
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  if (part.thousands) text = with_thousands(text);
  return part.plus && text.find_first_of("123456789") != std::string::npos && text.front() != '-' ? "+" + text
                                                                                                  : text;
}

std::string Formatter::format(const CellText& text, const Record& record, const Labels& labels) {
  struct Piece {
    std::string text;
    int group;
  };
  std::vector<Piece> pieces;
  std::vector<int> vanished;
  bool any_value = false, any_known = false;
  for (const CellText::Part& part : text.parts()) {
    if (part.name.empty()) {
      pieces.push_back({part.literal, part.group});
      continue;
    }
    any_value = any_value || part.group == 0;
    const auto value = record.value(part.name);
    std::string piece = text_of(value);
    const auto field = labels.find(part.name);
    const auto label = field == labels.end() ? std::map<std::string, std::string>::const_iterator{}
                                             : field->second.find(piece);
    if (field != labels.end() && label != field->second.end())
      piece = label->second;
    else if (value.is_number() && (!value.is_number_integer() || part.scale != 1 || part.thousands))
      piece = number(value.get<double>(), part);
    any_known = any_known || !value.is_null() || (field != labels.end() && label != field->second.end());
    if (part.group && (piece == "n/a" || piece.empty())) vanished.push_back(part.group);
    pieces.push_back({std::move(piece), part.group});
  }
  if (any_value && !any_known) return "n/a";
  std::string out;
  for (const Piece& piece : pieces)
    if (!piece.group || std::find(vanished.begin(), vanished.end(), piece.group) == vanished.end())
      out += piece.text;
  return out;
}

}  // namespace mbench
