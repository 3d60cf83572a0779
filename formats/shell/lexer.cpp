#include "formats/shell/lexer.h"

#include <algorithm>
#include <cctype>

#include "engine/base/error.h"

namespace mbench::formats {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool ends_word(char c) {
  return blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>';
}

// "NAME" or "NAME+" of an array literal's beginning, "NAME=" or "NAME+="; empty if it is none.
std::string array_name(const std::string& word) {
  if (!word.ends_with('=')) return "";
  std::string name = word.substr(0, word.size() - 1);
  const std::string bare = name.ends_with('+') ? name.substr(0, name.size() - 1) : name;
  const bool good = !bare.empty() && !std::isdigit(static_cast<unsigned char>(bare[0])) &&
                    std::all_of(bare.begin(), bare.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return good ? name : "";
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file, int line) : text_(text), file_(file), line_(line) {}

  std::vector<ShellToken> all() {
    while (next()) {
    }
    push(ShellToken::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file_, line_), "{}", what);
  }

  void push(ShellToken::Kind kind, std::string text) { into_->push_back({kind, std::move(text), {}, line_}); }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n')
        at_ += 2, ++line_;
      else if (text_[at_] == '\\' && text_.substr(at_ + 1, 2) == "\r\n")
        at_ += 3, ++line_;
      else if (blank(text_[at_]))
        ++at_;
      else
        return;
    }
  }

  bool next() {
    skip_blanks();
    if (at_ >= text_.size()) return false;
    const char c = text_[at_];
    if (c == '#')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else if (c == '\n')
      newline();
    else if ((c == '<' || c == '>') && in_test_)
      push(ShellToken::Kind::op, std::string(1, c)), ++at_;  // compares
    else if (c == '<' || c == '>')
      redirection();
    else if (!op())
      word();
    return true;
  }

  void newline() {
    push(ShellToken::Kind::op, "\n");
    ++at_, ++line_;
    for (const std::string& until : documents_) skip_document(until);
    documents_.clear();
  }

  void skip_document(const std::string& until) {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size()), ++line_;
      line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line == until) return;
    }
  }

  bool op() {
    for (const std::string_view each : {";;", "&&", "||", ";", "&", "|", "(", ")"})
      if (text_.substr(at_, each.size()) == each) {
        if (each == "&" && at_ + 1 < text_.size() && text_[at_ + 1] == '>') return ++at_, redirection(), true;
        push(ShellToken::Kind::op, std::string(each));
        at_ += each.size();
        return true;
      }
    return false;
  }

  // "> file", "2>&1", "<<EOF", "<<< word": nothing of it is an argument.
  void redirection() {
    auto& tokens = *into_;
    if (!tokens.empty() && at_ > 0 && std::isdigit(static_cast<unsigned char>(text_[at_ - 1])) &&
        tokens.back().kind == ShellToken::Kind::word && tokens.back().text.size() == 1)
      tokens.pop_back();
    const bool document = text_.substr(at_, 2) == "<<" && text_.substr(at_, 3) != "<<<";
    if (text_.substr(at_, 2) == "<(" || text_.substr(at_, 2) == ">(")
      return word();  // a process: a word that is not known
    while (at_ < text_.size() &&
           (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '&' || (document && text_[at_] == '-')))
      ++at_;
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] == '\n') return;
    std::vector<ShellToken> target, *before = into_;
    into_ = &target;
    if (!ends_word(text_[at_])) word();
    into_ = before;
    if (document && !target.empty()) {
      std::string until = target.front().text;
      std::erase_if(until, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
      documents_.push_back(until);
    }
  }

  void word() {
    const int line = line_;
    std::string word;
    if (text_[at_] == '<' || text_[at_] == '>') word += text_[at_++];
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '(' && !array_name(word).empty()) return array(array_name(word));
      if (c == '(' && (word == "<" || word == ">")) {
        const std::size_t close = end_of_quoted("$" + std::string(text_.substr(at_)), 0);
        if (close == kNowhere) refuse("a substitution without an end");
        take(word, close - 1);
        continue;
      }
      if (c == '\\' && text_.substr(at_, 2) == "\\\n") {
        at_ += 2, ++line_;
        continue;
      }
      if (ends_word(c)) break;
      const std::size_t end = c == '\\' ? std::min(at_ + 2, text_.size()) : end_of_quoted(text_, at_);
      if (end == kNowhere) refuse(fmt::format("a quote or substitution without an end: {}", text_.substr(at_, 20)));
      take(word, end - at_);
    }
    if (word == "[[") in_test_ = true;
    if (word == "]]") in_test_ = false;
    into_->push_back({ShellToken::Kind::word, std::move(word), {}, line});
  }

  void take(std::string& word, std::size_t count) {
    const std::string_view part = text_.substr(at_, count);
    line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
    word += part;
    at_ += count;
  }

  void array(const std::string& name) {
    if (into_ != &tokens_) refuse("an array within another word");
    ShellToken token{ShellToken::Kind::array, name, {}, line_};
    std::vector<ShellToken>* before = into_;
    into_ = &token.values;
    ++at_;
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size()) refuse(fmt::format("the array {} has no end", name));
      if (text_[at_] == ')') break;
      if (text_[at_] == '\n')
        ++at_, ++line_;
      else if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (ends_word(text_[at_]))
        refuse(fmt::format("in the array {}: got \"{}\", need words", name, text_[at_]));
      else
        word();
    }
    ++at_;
    for (const ShellToken& value : token.values)
      if (value.kind != ShellToken::Kind::word) refuse(fmt::format("in the array {}: need words", name));
    into_ = before;
    into_->push_back(std::move(token));
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_;
  std::vector<ShellToken> tokens_, *into_ = &tokens_;
  std::vector<std::string> documents_;
  bool in_test_ = false;
};

// Behind the closing character, what is quoted within aside.
std::size_t end_of_block(std::string_view text, std::size_t at, char open, char close, int depth) {
  for (int level = 1; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (c == close) {
      ++at;
      if (--level == 0) return at;
    } else if (c == open) {
      ++at;
      ++level;
    } else {
      at = end_of_quoted(text, at, depth + 1);
      if (at == kNowhere) return kNowhere;
    }
  }
  return kNowhere;
}

}  // namespace

std::size_t end_of_quoted(std::string_view text, std::size_t at, int depth) {
  if (depth > kDeepest) return kNowhere;
  const char c = text[at];
  if (c == '\'') {
    const std::size_t end = text.find('\'', at + 1);
    return end == kNowhere ? kNowhere : end + 1;
  }
  if (c == '`') {
    const std::size_t end = text.find('`', at + 1);
    return end == kNowhere ? kNowhere : end + 1;
  }
  if (c == '"') {
    for (++at; at < text.size();) {
      if (text[at] == '"') return at + 1;
      if (text[at] == '\\')
        at += 2;
      else if (text[at] == '\'')
        ++at;  // an apostrophe
      else
        at = end_of_quoted(text, at, depth + 1);
      if (at == kNowhere) return kNowhere;
    }
    return kNowhere;
  }
  if (c == '$' && at + 1 < text.size()) {
    if (text[at + 1] == '{') return end_of_block(text, at + 2, '{', '}', depth);
    if (text[at + 1] == '(') return end_of_block(text, at + 2, '(', ')', depth);
  }
  return at + 1;
}

std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& file, int first_line) {
  return Lexer(text, file, first_line).all();
}

}  // namespace mbench::formats
