#include "formats/shell/shell.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "engine/base/error.h"
#include "formats/shell/expand.h"
#include "formats/shell/tests.h"

namespace mbench::formats {
namespace {

constexpr int kMostCommands = 20000;

bool is_assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(word[0]))) return false;
  const std::size_t end = word[equals - 1] == '+' ? equals - 1 : equals;
  return end > 0 && std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end),
                                [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Walks over the tokens as bash would. What is not live is only looked through for the variables that it assigns.
class Script {
 public:
  Script(const std::string& file, const std::map<std::string, std::string>& variables) : file_(file), variables_(file) {
    for (const auto& [name, value] : variables) variables_.pin(name, value);
  }

  void run_text(std::string_view text, int first_line, int depth) {
    check_depth(depth, first_line);
    const std::vector<ShellToken> tokens = shell_tokens(text, file_, first_line);
    Walk walk{tokens, 0, depth};
    list(walk, {}, Live::yes);
    if (!at_end(walk)) refuse(walk, "nothing to close");
  }

  std::vector<ShellCommand> commands;

 private:
  enum class Live { yes, maybe, no };
  struct Walk {
    const std::vector<ShellToken>& tokens;
    std::size_t at;
    int depth;
    const ShellToken& now() const { return tokens[at]; }
  };

  static bool at_end(const Walk& w) { return w.now().kind == ShellToken::Kind::end; }
  [[noreturn]] void refuse(const Walk& w, const std::string& need) const {
    const ShellToken& t = w.now();
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, t.line), "not as bash has it, got {}, need {}",
         t.kind == ShellToken::Kind::end ? "the end"
         : t.text == "\n"                ? "the end of a line"
                                         : "\"" + t.text.substr(0, 40) + "\"",
         need);
  }
  void check_depth(int depth, int line) const {
    if (depth > kDeepest)
      fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, line),
           "more than {} blocks or calls within each other, need fewer", kDeepest);
  }
  void expect(Walk& w, std::string_view word) {
    if (!w.now().is(word)) refuse(w, fmt::format("\"{}\"", word));
    ++w.at;
  }
  static bool separator(const ShellToken& t) {
    return t.is_op("\n") || t.is_op(";") || t.is_op("&") || t.is_op("&&") || t.is_op("||") || t.is_op("|");
  }
  void skip_separators(Walk& w) {
    while (separator(w.now())) ++w.at;
  }

  // Commands up to one of these words, or an operator that closes.
  void list(Walk& w, const std::set<std::string_view>& until, Live live) {
    for (;;) {
      skip_separators(w);
      const ShellToken& t = w.now();
      if (at_end(w) || t.is_op(")") || t.is_op(";;") || (t.kind == ShellToken::Kind::word && until.contains(t.text)))
        return;
      command(w, live);
    }
  }

  void command(Walk& w, Live live) {
    const ShellToken& t = w.now();
    if (t.is("if")) return branch(w, live);
    if (t.is("while") || t.is("until")) return loop(w, live);
    if (t.is("for") || t.is("select")) return for_loop(w, live);
    if (t.is("case")) return cases(w, live);
    if (t.is("{")) return block(w, live, "}");
    if (t.is("!") || t.is("time")) return void(++w.at);
    if (t.is_op("(")) return block(w, live, "");
    if (is_function(w)) return function(w);
    for (const std::string_view reserved : {"then", "elif", "else", "fi", "do", "done", "esac", "}"})
      if (t.is(reserved)) refuse(w, "a command");
    if (t.kind == ShellToken::Kind::op) refuse(w, "a command");
    simple(w, live);
  }

  // "{ ...; }" or "( ... )".
  void block(Walk& w, Live live, std::string_view close) {
    check_depth(++w.depth, w.now().line);
    ++w.at;
    list(w, close.empty() ? std::set<std::string_view>{} : std::set<std::string_view>{close}, live);
    if (close.empty() ? !w.now().is_op(")") : !w.now().is(close)) refuse(w, close.empty() ? "\")\"" : "\"}\"");
    ++w.at;
    --w.depth;
  }

  // What stands up to `end` as a condition: whether it holds, if that is known.
  std::optional<bool> condition(Walk& w, std::string_view end) {
    const std::size_t begin = w.at;
    int inside = 0;
    while (!at_end(w) && !(inside == 0 && w.now().is(end))) {
      if (w.now().is("[[")) ++inside;
      if (w.now().is("]]")) --inside;
      ++w.at;
    }
    if (at_end(w)) refuse(w, fmt::format("\"{}\"", end));
    return shell_test(variables_, w.tokens, begin, w.at);
  }

  static Live both(Live outer, std::optional<bool> holds) {
    if (outer == Live::no || (holds && !*holds)) return Live::no;
    return holds ? outer : Live::maybe;
  }

  void branch(Walk& w, Live live) {
    check_depth(++w.depth, w.now().line);
    Live rest = live;
    while (w.now().is("if") || w.now().is("elif")) {
      ++w.at;
      const std::optional<bool> holds = condition(w, "then");
      ++w.at;
      list(w, {"elif", "else", "fi"}, both(rest, holds));
      if (holds && *holds) rest = Live::no;
      if (!holds && rest == Live::yes) rest = Live::maybe;
    }
    if (w.now().is("else")) {
      ++w.at;
      list(w, {"fi"}, rest);
    }
    expect(w, "fi");
    --w.depth;
  }

  void loop(Walk& w, Live live) {
    check_depth(++w.depth, w.now().line);
    const bool until = w.now().is("until");
    ++w.at;
    const std::optional<bool> holds = condition(w, "do");
    ++w.at;
    const bool never = holds && *holds == until;
    list(w, {"done"}, never || live == Live::no ? Live::no : Live::maybe);
    expect(w, "done");
    --w.depth;
  }

  void for_loop(Walk& w, Live live) {
    check_depth(++w.depth, w.now().line);
    const int line = w.now().line;
    const std::string name = w.tokens[++w.at].text;
    std::vector<ShellWord> values;
    if (!at_end(w)) ++w.at;
    while (!at_end(w) && !w.now().is("do")) {
      if (w.now().kind == ShellToken::Kind::word && !w.now().is("in"))
        for (const ShellWord& value : variables_.expand(w.now())) values.push_back(value);
      ++w.at;
    }
    expect(w, "do");
    // One round is as if there were no loop; of several, what differs between them is not known.
    const bool once = values.size() == 1 && values.front().unknown.empty();
    if (live == Live::yes && once) variables_.set(name, {{values.front()}});
    if (live != Live::no && !once) variables_.forget(name, fmt::format("{} is of a loop on line {}", name, line), line);
    list(w, {"done"}, live == Live::no || once ? live : Live::maybe);
    expect(w, "done");
    --w.depth;
  }

  void cases(Walk& w, Live live) {
    check_depth(++w.depth, w.now().line);
    ++w.at;
    if (at_end(w)) refuse(w, "a word");
    const ShellWord subject = variables_.expand_whole(w.now());
    ++w.at;
    skip_separators(w);
    expect(w, "in");
    Live rest = live;
    for (skip_separators(w); !w.now().is("esac"); skip_separators(w)) {
      if (at_end(w)) refuse(w, "\"esac\"");
      std::optional<bool> holds = subject.unknown.empty() || subject.unset ? std::optional(false) : std::nullopt;
      while (!at_end(w) && !w.now().is_op(")")) {
        if (w.now().kind == ShellToken::Kind::word && holds) {
          const ShellWord pattern = variables_.expand_whole(w.now());
          holds = *holds || ::fnmatch(pattern.text.c_str(), without_unknown(subject.text).c_str(), 0) == 0;
        }
        ++w.at;
      }
      if (at_end(w)) refuse(w, "\")\"");
      ++w.at;
      list(w, {"esac"}, both(rest, holds));
      if (holds && *holds) rest = Live::no;
      if (!holds && rest == Live::yes) rest = Live::maybe;
      if (w.now().is_op(";;"))
        ++w.at;
      else if (!w.now().is("esac"))
        refuse(w, "\";;\"");
    }
    ++w.at;
    --w.depth;
  }

  static bool is_function(const Walk& w) {
    if (w.now().is("function")) return true;
    return w.now().kind == ShellToken::Kind::word && w.at + 2 < w.tokens.size() && w.tokens[w.at + 1].is_op("(") &&
           w.tokens[w.at + 2].is_op(")");
  }

  void function(Walk& w) {
    if (w.now().is("function")) ++w.at;
    const std::string name = w.now().text;
    if (at_end(w)) refuse(w, "a name");
    ++w.at;
    while (w.now().is_op("(") || w.now().is_op(")") || w.now().is_op("\n")) ++w.at;
    const std::size_t begin = w.at;
    if (at_end(w)) refuse(w, "a block");
    command(w, Live::no);
    functions_[name].assign(w.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                            w.tokens.begin() + static_cast<std::ptrdiff_t>(w.at));
    functions_[name].push_back({ShellToken::Kind::end, "", {}, w.now().line});
  }

  void call(const std::string& name, std::vector<ShellWord> arguments, int depth, int line) {
    check_depth(depth, line);
    const std::vector<ShellToken> body = functions_.at(name);
    std::swap(variables_.arguments, arguments);
    Walk walk{body, 0, depth};
    command(walk, Live::yes);
    std::swap(variables_.arguments, arguments);
  }

  void assign(const ShellToken& t, Live live) {
    if (live == Live::no) return;
    std::string name = t.text;
    ShellValue value;
    if (t.kind == ShellToken::Kind::array) {
      for (const ShellToken& each : t.values)
        for (ShellWord& word : variables_.expand(each)) value.elements.push_back(std::move(word));
    } else {
      const std::size_t equals = t.text.find('=');
      name = t.text.substr(0, equals);
      value.elements = {variables_.expand_whole({ShellToken::Kind::word, t.text.substr(equals + 1), {}, t.line})};
    }
    const bool more = name.ends_with('+');
    if (more) name.pop_back();
    if (live == Live::maybe)
      return variables_.forget(name, fmt::format("{} depends on what is not known on line {}", name, t.line), t.line);
    if (more)
      variables_.append(name, value, t.kind == ShellToken::Kind::array);
    else
      variables_.set(name, std::move(value));
  }

  void simple(Walk& w, Live live) {
    const int line = w.now().line;
    std::vector<ShellWord> words;
    bool declares = false;
    for (; !at_end(w) && w.now().kind != ShellToken::Kind::op; ++w.at) {
      const ShellToken& t = w.now();
      const bool assigns = t.kind == ShellToken::Kind::array || is_assignment(t.text);
      if (assigns && (words.empty() || declares)) {
        assign(t, live);
        continue;
      }
      if (t.kind == ShellToken::Kind::array) refuse(w, "a command's word");
      if (words.empty() &&
          (t.is("export") || t.is("declare") || t.is("local") || t.is("readonly") || t.is("typeset"))) {
        declares = true;
        continue;
      }
      if (declares || live == Live::no) continue;
      for (ShellWord& word : variables_.expand(t)) words.push_back(std::move(word));
    }
    // "f (" is no command of ours: what follows would be read as one.
    if (!at_end(w) && w.now().is_op("(")) refuse(w, "the end of a command");
    if (words.empty() || live == Live::no) return;
    perform(std::move(words), live, line, w.depth);
  }

  void perform(std::vector<ShellWord> words, Live live, int line, int depth) {
    if (++performed_ > kMostCommands)
      fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, line), "more than {} commands, need fewer", kMostCommands);
    const std::string& name = words.front().text;
    if (name == "read" || name == "unset" || name == "mapfile" || name == "readarray") {
      for (std::size_t i = 1; i < words.size(); ++i)
        if (is_assignment(words[i].text + "="))
          variables_.forget(words[i].text, fmt::format("{} is {} on line {}", words[i].text, name, line), line);
      return;
    }
    if (name == "set" && words.size() > 1 && words[1].text == "--") {
      variables_.arguments.assign(words.begin() + 2, words.end());
      return;
    }
    if (name == "shift") {
      if (!variables_.arguments.empty()) variables_.arguments.erase(variables_.arguments.begin());
      return;
    }
    if (functions_.contains(name) && live == Live::yes)
      return call(std::string(name), {words.begin() + 1, words.end()}, depth + 1, line);
    if (const std::size_t first = script_within(words); first > 0) {
      std::string text;
      for (std::size_t i = first; i < words.size(); ++i) {
        if (!words[i].unknown.empty())
          fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, line), "what is to be run is not known: {}",
               words[i].unknown);
        text += (text.empty() ? "" : " ") + words[i].text;
        if (words.front().text != "eval") break;  // what follows are its arguments
      }
      return run_text(text, line, depth + 1);
    }
    for (ShellWord& word : words) word.text = without_unknown(std::move(word.text));
    commands.push_back({std::move(words), line});
  }

  // "eval WORDS", "srun ... bash -c TEXT": where the text begins; 0: there is none.
  static std::size_t script_within(const std::vector<ShellWord>& words) {
    if (words.front().text == "eval") return words.size() > 1 ? 1 : 0;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      const std::string& shell = words[i - 1].text;
      const bool is_shell = shell == "bash" || shell == "sh" || shell.ends_with("/bash") || shell.ends_with("/sh");
      if (is_shell && words[i].text.starts_with('-') && words[i].text.ends_with('c')) return i + 1;
    }
    return 0;
  }

  const std::string& file_;
  ShellVariables variables_;
  std::map<std::string, std::vector<ShellToken>> functions_;
  int performed_ = 0;
};

}  // namespace

std::vector<ShellCommand> shell_commands(std::string_view text, const std::string& file,
                                         const std::map<std::string, std::string>& variables) {
  Script script(file, variables);
  script.run_text(text, 1, 0);
  return std::move(script.commands);
}

}  // namespace mbench::formats
