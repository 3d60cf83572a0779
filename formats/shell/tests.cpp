#include "formats/shell/tests.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>

namespace mbench::formats {
namespace {

using Holds = std::optional<bool>;

Holds negated(Holds holds) {
  return holds ? Holds(!*holds) : std::nullopt;
}
Holds both(Holds a, Holds b) {
  if ((a && !*a) || (b && !*b)) return false;
  return a && b ? Holds(true) : std::nullopt;
}
Holds either(Holds a, Holds b) {
  return negated(both(negated(a), negated(b)));
}

std::optional<long long> number(const std::string& text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  if (text.size() == sign || text.size() > 18 ||
      !std::all_of(text.begin() + static_cast<std::ptrdiff_t>(sign), text.end(),
                   [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  return std::stoll(text);
}

// Comparisons within one pair of brackets, in tokens of their own.
class Test {
 public:
  Test(ShellVariables& variables, const std::vector<ShellToken>& tokens, std::size_t begin, std::size_t end)
      : variables_(variables), tokens_(tokens), at_(begin), end_(end) {}

  Holds value() {
    const Holds found = any(0);
    return at_ == end_ ? found : std::nullopt;
  }

 private:
  bool is(std::string_view text) const { return at_ < end_ && tokens_[at_].text == text; }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> word(bool& unset) {
    const ShellWord found = variables_.expand_whole(tokens_[at_++]);
    unset = found.unset;
    return found.unknown.empty() || found.unset ? std::optional(without_unknown(found.text)) : std::nullopt;
  }

  Holds any(int depth) {
    Holds a = all(depth);
    while (take("||") || take("-o")) a = either(a, all(depth));
    return a;
  }
  Holds all(int depth) {
    Holds a = one(depth);
    while (take("&&") || take("-a")) a = both(a, one(depth));
    return a;
  }
  Holds one(int depth) {
    if (at_ >= end_ || depth > kDeepest) return std::nullopt;
    if (take("!")) return negated(one(depth + 1));
    if (take("(")) {
      const Holds inside = any(depth + 1);
      return take(")") ? inside : std::nullopt;
    }
    bool unset = false;
    if (tokens_[at_].text.size() == 2 && tokens_[at_].text[0] == '-' && at_ + 1 < end_ &&
        tokens_[at_ + 1].kind == ShellToken::Kind::word) {
      const char op = tokens_[at_++].text[1];
      const auto operand = word(unset);
      if (op == 'z' || op == 'n') return operand ? Holds(operand->empty() == (op == 'z')) : std::nullopt;
      return std::nullopt;  // of files, and other things outside
    }
    const auto left = word(unset);
    if (at_ >= end_ || is("&&") || is("||") || is("-a") || is("-o") || is(")"))
      return left ? Holds(!left->empty()) : std::nullopt;
    const std::string op = tokens_[at_++].text;
    if (at_ >= end_) return std::nullopt;
    const auto right = word(unset);
    return left && right ? compared(*left, op, *right) : std::nullopt;
  }

  static Holds compared(const std::string& left, const std::string& op, const std::string& right) {
    if (op == "=" || op == "==") return ::fnmatch(right.c_str(), left.c_str(), 0) == 0;
    if (op == "!=") return ::fnmatch(right.c_str(), left.c_str(), 0) != 0;
    const auto a = number(left), b = number(right);
    if (!a || !b) return std::nullopt;
    if (op == "-eq") return *a == *b;
    if (op == "-ne") return *a != *b;
    if (op == "-lt") return *a < *b;
    if (op == "-le") return *a <= *b;
    if (op == "-gt") return *a > *b;
    if (op == "-ge") return *a >= *b;
    return std::nullopt;
  }

  ShellVariables& variables_;
  const std::vector<ShellToken>& tokens_;
  std::size_t at_, end_;
};

}  // namespace

std::optional<bool> shell_test(ShellVariables& variables, const std::vector<ShellToken>& tokens, std::size_t begin,
                               std::size_t end) {
  Holds total;
  bool first = true, and_next = true;
  for (std::size_t at = begin; at < end;) {
    const ShellToken& t = tokens[at];
    if (t.is_op("\n") || t.is_op(";")) {
      ++at;
      continue;
    }
    if (t.is_op("&&") || t.is_op("||")) {
      and_next = t.text == "&&";
      ++at;
      continue;
    }
    bool invert = false;
    while (at < end && tokens[at].is("!")) invert = !invert, ++at;
    Holds one;
    if (at < end && (tokens[at].is("[") || tokens[at].is("[["))) {
      const std::string_view close = tokens[at].text == "[" ? "]" : "]]";
      std::size_t last = at + 1;
      while (last < end && !tokens[last].is(close)) ++last;
      one = Test(variables, tokens, at + 1, last).value();
      at = std::min(last + 1, end);
    } else {
      const std::size_t from = at;
      while (at < end && tokens[at].kind != ShellToken::Kind::op) ++at;
      if (at == from) return std::nullopt;
      if (tokens[from].is("true") || tokens[from].is(":")) one = true;
      if (tokens[from].is("false")) one = false;
      if (tokens[from].is("test")) one = Test(variables, tokens, from + 1, at).value();
    }
    if (invert) one = negated(one);
    total = first ? one : and_next ? both(total, one) : either(total, one);
    first = false, and_next = true;
  }
  return total;
}

}  // namespace mbench::formats
