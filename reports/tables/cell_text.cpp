#include "reports/tables/cell_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "reports/records/number_text.h"

namespace mbench::reports {
namespace {

[[noreturn]] void malformed(std::string_view where, std::string_view what, std::string_view got) {
  fail(ErrorKind::bad_input, where,
       "{}, got \"{}\", need text with values as {{name}}, {{name:2}}, {{name:,0}}, {{name/1024:1}}", what, got);
}

// A whole number at the front of `text`, which loses it; -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number > 15) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// ",1", "+2", "4s", "3g1-2": false if it is no format.
bool parse_format(std::string_view format, CellText::Part& part) {
  using Digits = CellText::Part::Digits;
  for (; !format.empty() && (format.front() == ',' || format.front() == '+'); format.remove_prefix(1))
    (format.front() == ',' ? part.thousands : part.sign) = true;
  part.digits = take_number(format);
  part.mode = Digits::decimals;
  if (part.digits >= 0 && format.empty()) return true;
  if (part.digits < 1 || format.empty()) return false;
  part.mode = format.front() == 's' ? Digits::column : Digits::each;
  if (format.front() != 's' && format.front() != 'g') return false;
  format.remove_prefix(1);
  if (format.empty() || part.mode == Digits::column) return format.empty();
  part.least = take_number(format);
  if (part.least < 0 || format.empty() || format.front() != '-') return false;
  format.remove_prefix(1);
  part.most = take_number(format);
  return part.most >= part.least && format.empty();
}

// "name*2:,1s" without its braces.
CellText::Part parse_value(std::string_view inside, std::string_view where) {
  CellText::Part part;
  std::string_view rest = inside;
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos) {
    if (!parse_format(rest.substr(colon + 1), part)) malformed(where, "not a number format", inside);
    rest = rest.substr(0, colon);
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
    const bool after_digit = i > 0 && digits[i - 1] != '-' && digits[i - 1] != '+';
    if (i < end && after_digit && (end - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

int Formatter::decimals(double value, const CellText::Part& part) {
  using Digits = CellText::Part::Digits;
  if (part.mode == Digits::decimals) return part.digits;
  const auto needed = [&](double x) {
    const int exponent = x > 0 ? static_cast<int>(std::floor(std::log10(x))) : 0;
    return std::clamp(part.digits - 1 - exponent, part.least, part.most);
  };
  if (part.mode == Digits::each) return needed(std::abs(value));
  // A spread is as precise as the mean it belongs to.
  std::string_view name = part.name;
  constexpr std::string_view kSpread = ".stddev";
  if (name.size() > kSpread.size() && name.substr(name.size() - kSpread.size()) == kSpread)
    name.remove_suffix(kSpread.size());
  const auto key = std::tuple(std::string(name), part.scale, part.digits);
  if (const auto it = decimals_.find(key); it != decimals_.end()) return it->second;
  double smallest = 0;
  nlohmann::ordered_json made;
  for (const Record* record : records_) {
    const auto& known = record->value(name, made);
    if (!known.is_number()) continue;
    const double x = std::abs(known.get<double>() * part.scale);
    if (x > 0 && std::isfinite(x) && (smallest == 0 || x < smallest)) smallest = x;
  }
  return decimals_[key] = needed(smallest);
}

std::string Formatter::number(double value, const CellText::Part& part) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double scaled = value * part.scale;
  std::string text = fixed_text(scaled, decimals(scaled, part));
  const bool zero = text.find_first_not_of("-0.") == std::string::npos;
  if (zero && text.front() == '-') text.erase(0, 1);
  if (part.sign && !zero && scaled > 0) text.insert(text.begin(), '+');
  return part.thousands && text.find('e') == std::string::npos ? with_thousands(text) : text;
}

std::string Formatter::number(double value, const CellText& text) {
  std::string out;
  for (const CellText::Part& part : text.parts()) out += part.name.empty() ? part.literal : number(value, part);
  return out;
}

namespace {

// What the declaration prints instead of a value; null if that is the value itself.
const std::string* label_of(const Labels& labels, const std::string& name, const nlohmann::ordered_json& value) {
  const auto field = labels.find(name);
  if (field == labels.end()) return nullptr;
  const auto label = field->second.find(text_of(value));
  return label == field->second.end() ? nullptr : &label->second;
}

}  // namespace

std::string Formatter::format(const CellText& text, const Record& record, const Labels& labels) {
  struct Piece {
    std::string text;
    int group;
  };
  std::vector<Piece> pieces;
  std::vector<int> vanished;
  nlohmann::ordered_json made;
  bool any_value = false, any_known = false;
  for (const CellText::Part& part : text.parts()) {
    if (part.name.empty()) {
      pieces.push_back({part.literal, part.group});
      continue;
    }
    any_value = any_value || part.group == 0;
    const auto& value = record.value(part.name, made);
    const std::string* label = label_of(labels, part.name, value);
    const bool formatted =
        value.is_number() && (!value.is_number_integer() || part.scale != 1 || part.thousands || part.sign);
    std::string piece = label ? *label : formatted ? number(value.get<double>(), part) : text_of(value);
    any_known = any_known || label || !value.is_null();
    if (part.group && (piece == "n/a" || piece.empty())) vanished.push_back(part.group);
    pieces.push_back({std::move(piece), part.group});
  }
  if (any_value && !any_known) return "n/a";
  std::string out;
  for (const Piece& piece : pieces)
    if (!piece.group || std::find(vanished.begin(), vanished.end(), piece.group) == vanished.end()) out += piece.text;
  return out;
}

}  // namespace mbench::reports
