#include "formats/shell/expand.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "engine/base/error.h"

namespace mbench::formats {
namespace {

constexpr std::size_t npos = std::string_view::npos;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of all words together

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
std::size_t name_end(std::string_view text, std::size_t at) {
  while (at < text.size() && in_name(text[at])) ++at;
  return at;
}

// + - * / % ** and brackets on whole numbers; nothing where a variable or the result is not one.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellVariables& variables) : text_(text), variables_(variables) {}
  std::optional<std::int64_t> value() {
    const auto found = sum(0);
    skip();
    return at_ == text_.size() ? found : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '"')) ++at_;
  }
  bool take(std::string_view op) {
    skip();
    if (text_.substr(at_, op.size()) != op) return false;
    at_ += op.size();
    return true;
  }

  static Number joined(char op, Number a, Number b) {
    std::int64_t result = 0;
    if (!a || !b) return std::nullopt;
    switch (op) {
      case '+':
        return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : Number(result);
      case '-':
        return __builtin_sub_overflow(*a, *b, &result) ? std::nullopt : Number(result);
      case '*':
        return __builtin_mul_overflow(*a, *b, &result) ? std::nullopt : Number(result);
    }
    if (*b == 0 || *b == -1) return std::nullopt;  // the second overflows for one number, and nobody writes it
    return op == '/' ? *a / *b : *a % *b;
  }

  Number sum(int depth) {
    Number a = gemm(depth);
    for (;;)
      if (take("+"))
        a = joined('+', a, gemm(depth));
      else if (take("-"))
        a = joined('-', a, gemm(depth));
      else
        return a;
  }
  Number gemm(int depth) {
    Number a = power(depth);
    for (;;)
      if (take("**"))
        return std::nullopt;
      else if (take("*"))
        a = joined('*', a, power(depth));
      else if (take("/"))
        a = joined('/', a, power(depth));
      else if (take("%"))
        a = joined('%', a, power(depth));
      else
        return a;
  }
  Number power(int depth) {
    const Number base = one(depth);
    if (!take("**")) return base;
    const Number exponent = one(depth);
    if (!base || !exponent || *exponent < 0 || *exponent > 63) return std::nullopt;
    Number result = 1;
    for (std::int64_t i = 0; i < *exponent; ++i) result = joined('*', result, base);
    return result;
  }
  Number one(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (take("-")) return joined('-', 0, one(depth + 1));
    if (take("(")) {
      const Number inside = sum(depth + 1);
      return take(")") ? inside : std::nullopt;
    }
    skip();
    if (at_ < text_.size() && text_[at_] == '$') {
      ++at_;
      if (take("((")) {
        const Number inside = sum(depth + 1);
        return take("))") ? inside : std::nullopt;
      }
    }
    const bool braces = take("{");
    skip();
    const std::size_t end = name_end(text_, at_);
    const std::string name(text_.substr(at_, end - at_));
    at_ = end;
    if ((braces && !take("}")) || name.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(name[0]))) return number(name);
    const ShellValue* found = variables_.find(name);
    if (!found || found->elements.empty() || !found->elements.front().unknown.empty()) return std::nullopt;
    return number(found->elements.front().text);
  }
  static Number number(const std::string& text) {
    if (text.empty() || text.size() > 18 ||
        !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
      return std::nullopt;
    return std::stoll(text);
  }

  std::string_view text_;
  const ShellVariables& variables_;
  std::size_t at_ = 0;
};

}  // namespace

// What a word has become so far: fields that are done, and the one that is being written.
struct ShellVariables::Fields {
  int line = 0;
  bool split = true;
  std::vector<ShellWord> done;
  ShellWord now;
  bool begun = false;

  void add(std::string_view text) { now.text += text, begun = true; }
  void add_unknown(const ShellWord& word) {
    now.text += word.text.find(kUnknownPart) == std::string::npos ? word.text + kUnknownPart : word.text, begun = true;
    if (now.unknown.empty()) now.unknown = word.unknown, now.unset = word.unset;
  }
  void finish() {
    if (!begun) return;
    if (now.line == 0) now.line = line;
    done.push_back(std::move(now));
    now = {}, begun = false;
  }
  // An unquoted value: blanks separate fields.
  void add_split(const ShellWord& word) {
    for (const char c : word.text) {
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        finish();
      } else {
        now.text += c, begun = true;
        if (c == kUnknownPart && now.unknown.empty()) now.unknown = word.unknown, now.unset = word.unset;
        if (now.line == 0) now.line = word.line;
      }
    }
  }
  void add_value(const ShellWord& word, bool quoted) {
    if (quoted || !split) return word.unknown.empty() ? add(word.text) : add_unknown(word);
    add_split(word);
  }
};

std::string without_unknown(std::string text) {
  std::erase(text, kUnknownPart);
  return text;
}

void ShellVariables::pin(const std::string& name, const std::string& value) {
  variables_[name] = {{ShellWord{value, "", false, 0}}};
  pinned_.insert(name);
}

const ShellValue* ShellVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellVariables::set(const std::string& name, ShellValue value) {
  if (!pinned_.contains(name)) variables_[name] = std::move(value);
}

void ShellVariables::append(const std::string& name, const ShellValue& more, bool array) {
  if (pinned_.contains(name)) return;
  ShellValue& value = variables_[name];
  if (array || value.elements.empty()) {
    value.elements.insert(value.elements.end(), more.elements.begin(), more.elements.end());
    for (const ShellWord& word : more.elements) spend(word.text.size() + 1, word.line);
    return;
  }
  ShellWord& first = value.elements.front();
  for (const ShellWord& word : more.elements) {
    first.text += word.text;
    spend(first.text.size(), word.line);
    if (first.unknown.empty()) first.unknown = word.unknown, first.unset = word.unset;
  }
}

void ShellVariables::forget(const std::string& name, const std::string& why, int line) {
  if (!pinned_.contains(name)) variables_[name] = {{ShellWord{std::string(1, kUnknownPart), why, false, line}}};
}

void ShellVariables::spend(std::size_t bytes, int line) {
  spent_ += bytes;
  if (spent_ > kMostBytes)
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, line),
         "words grow beyond {} MiB, need a script without such growth", kMostBytes >> 20);
}

ShellWord ShellVariables::arithmetic(std::string_view expression, int line) {
  if (const auto value = Arithmetic(expression, *this).value()) return {std::to_string(*value), "", false, line};
  return {"", fmt::format("$(({})) on line {} is of variables that are no known whole numbers", expression, line),
          false, line};
}

// "$NAME", "${...}", "$(...)", "$((...))": behind it.
std::size_t ShellVariables::dollar(Fields& fields, std::string_view text, std::size_t at, bool quoted, int depth) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("$((")) {
    const std::size_t end = end_of_quoted(text, at);
    if (end != npos && text.substr(0, end).ends_with("))")) {
      fields.add_unknown(arithmetic(text.substr(at + 3, end - at - 5), fields.line));
      return end;
    }
  }
  if (rest.starts_with("$(")) {
    const std::size_t end = end_of_quoted(text, at);
    fields.add_unknown(
        {"", fmt::format("{} on line {} is not run", text.substr(at, std::min<std::size_t>(end - at, 60)), fields.line),
         false, fields.line});
    return end;
  }
  if (rest.starts_with("${")) {
    const std::size_t end = end_of_quoted(text, at);
    parameter(fields, text.substr(at + 2, end - at - 3), quoted, depth);
    return end;
  }
  const std::size_t end = at + 1 < text.size() && std::string_view("@*#?$!-0123456789").find(text[at + 1]) != npos
                              ? at + 2
                              : name_end(text, at + 1);
  if (end == at + 1) return fields.add("$"), end;
  value_of(fields, std::string(text.substr(at + 1, end - at - 1)), "", quoted);
  return end;
}

// What stands between the braces.
void ShellVariables::parameter(Fields& fields, std::string_view inside, bool quoted, int depth) {
  const auto give_up = [&] {
    fields.add_unknown(
        {"", fmt::format("${{{}}} on line {} is not resolved", inside.substr(0, 60), fields.line), false, fields.line});
  };
  const bool count = inside.size() > 1 && inside.front() == '#';
  if (count) inside.remove_prefix(1);
  std::size_t end = name_end(inside, 0);
  if (end == 0 && !inside.empty() && (inside[0] == '@' || inside[0] == '*')) end = 1;
  const std::string name(inside.substr(0, end));
  std::string_view index, rest = inside.substr(end);
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == npos) return give_up();
    index = rest.substr(1, close - 1), rest = rest.substr(close + 1);
  }
  if (name.empty() || (count && !rest.empty())) return give_up();
  const ShellValue* value = find(name);
  if (count) {
    if (index.empty() || !value) return give_up();
    return fields.add(std::to_string(value->elements.size()));
  }
  if (rest.empty()) return value_of(fields, name, index, quoted);
  const bool colon = rest.front() == ':';
  const char op = colon ? (rest.size() > 1 ? rest[1] : ' ') : rest.front();
  const std::string_view word = rest.substr(std::min<std::size_t>(rest.size(), colon ? 2 : 1));
  std::vector<ShellWord> positional;
  if (std::isdigit(static_cast<unsigned char>(name[0]))) {
    const std::size_t n = name.size() > 3 ? arguments.size() + 1 : std::stoul(name);
    if (n >= 1 && n <= arguments.size()) positional.push_back(arguments[n - 1]);
  } else if (value) {
    positional = value->elements;
  }
  const bool empty =
      positional.empty() || (colon && positional.front().unknown.empty() && positional.front().text.empty());
  if (op == '-' || op == '=' || op == '?') {
    if (!empty) return value_of(fields, name, index, quoted);
    if (op == '?') return value_of(fields, name, index, quoted);
    if (op == '=') set(name, {{expand_whole({ShellToken::Kind::word, std::string(word), {}, fields.line})}});
    return expand_into(fields, word, quoted, depth + 1);
  }
  if (op == '+') return empty ? void() : expand_into(fields, word, quoted, depth + 1);
  give_up();
}

void ShellVariables::value_of(Fields& fields, const std::string& name, std::string_view index, bool quoted) {
  const auto each = [&](const std::vector<ShellWord>& words, bool apart) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0 && apart)
        fields.finish();
      else if (i > 0)
        fields.add(" ");
      if (quoted) fields.begun = true;
      if (apart && fields.now.text.empty()) fields.now.line = words[i].line;
      fields.add_value(words[i], quoted);
      spend(words[i].text.size() + 1, fields.line);
    }
  };
  const auto unset = [&] {
    fields.add_unknown({"", fmt::format("{} is not set on line {}", name, fields.line), true, fields.line});
  };
  if (name == "@" || name == "*") return each(arguments, fields.split && !(name == "*" && quoted));
  if (name == "#") return fields.add(std::to_string(arguments.size()));
  if (std::isdigit(static_cast<unsigned char>(name[0]))) {
    const std::size_t n = name.size() > 3 ? arguments.size() + 1 : std::stoul(name);
    if (n < 1 || n > arguments.size())
      return fields.add_unknown(
          {"", fmt::format("the script's argument ${} is not given on line {}", name, fields.line), true, fields.line});
    return each({arguments[n - 1]}, false);
  }
  if (!in_name(name[0]))
    return fields.add_unknown(
        {"", fmt::format("${} on line {} is not resolved", name, fields.line), false, fields.line});
  const ShellValue* value = find(name);
  if (!value) return unset();
  if (index == "@" || index == "*") return each(value->elements, fields.split && !(index == "*" && quoted));
  std::size_t at = 0;
  if (!index.empty()) {
    const ShellWord place = arithmetic(index, fields.line);
    if (!place.unknown.empty() || place.text.size() > 6 || place.text.front() == '-') return unset();
    at = std::stoul(place.text);
  }
  if (value->elements.empty() && index.empty()) return;  // an array of none
  if (at >= value->elements.size()) return unset();
  each({value->elements[at]}, false);
}

void ShellVariables::expand_into(Fields& fields, std::string_view text, bool quoted, int depth) {
  if (depth > kDeepest)
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, fields.line),
         "more than {} expansions within each other, need fewer", kDeepest);
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      const char next = at + 1 < text.size() ? text[at + 1] : '\\';
      if (next != '\n') {
        if (quoted && std::string_view("$`\"\\").find(next) == npos) fields.add("\\");
        fields.add(std::string_view(&next, 1));
      }
      at += 2;
    } else if (c == '\'' && !quoted) {
      const std::size_t end = std::min(text.find('\'', at + 1), text.size());
      fields.add(text.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (c == '"') {
      const std::size_t end = end_of_quoted(text, at);
      const std::size_t last = end == npos ? text.size() : end - 1;
      if (text.substr(at + 1, last - at - 1).find("[@]") == npos && text.substr(at + 1, last - at - 1) != "$@")
        fields.begun = true;
      expand_into(fields, text.substr(at + 1, last - at - 1), true, depth + 1);
      at = last + 1;
    } else if (c == '`') {
      const std::size_t end = std::min(text.find('`', at + 1), text.size());
      fields.add_unknown(
          {"",
           fmt::format("{}` on line {} is not run", text.substr(at, std::min<std::size_t>(end - at, 60)), fields.line),
           false, fields.line});
      at = end + 1;
    } else if (c == '$') {
      at = std::min(dollar(fields, text, at, quoted, depth), text.size());
    } else if ((c == '<' || c == '>') && at + 1 < text.size() && text[at + 1] == '(' && !quoted) {
      fields.add_unknown(
          {"", fmt::format("{} on line {} is not run", text.substr(at, 60), fields.line), false, fields.line});
      at = text.size();
    } else {
      fields.add(text.substr(at, 1));
      ++at;
    }
  }
}

std::vector<ShellWord> ShellVariables::expand(const ShellToken& word) {
  Fields fields;
  fields.line = word.line;
  expand_into(fields, word.text, false, 0);
  fields.finish();
  for (const ShellWord& each : fields.done) spend(each.text.size() + 1, word.line);
  return std::move(fields.done);
}

ShellWord ShellVariables::expand_whole(const ShellToken& word) {
  Fields fields;
  fields.line = word.line;
  fields.split = false;
  expand_into(fields, word.text, false, 0);
  spend(fields.now.text.size() + 1, word.line);
  fields.now.line = word.line;
  return fields.now;
}

}  // namespace mbench::formats
