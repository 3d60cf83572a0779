// The tokens of a shell script: words as they are written, quotes and all, operators, and array literals.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench::formats {

struct ShellToken {
  enum class Kind { word, op, array, end };
  Kind kind = Kind::end;
  std::string text;                // of an array its name, with "+" where it is appended to
  std::vector<ShellToken> values;  // of an array: words
  int line = 0;

  bool is(std::string_view word) const { return kind == Kind::word && text == word; }
  bool is_op(std::string_view op) const { return kind == Kind::op && text == op; }
};

constexpr int kDeepest = 64;  // quotes, substitutions, blocks and calls within each other

// The last token is `end`. Redirections and here-documents are left out. Throws bad_input naming "file:line".
std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& file, int first_line = 1);

// Where what begins at `at` ends, the position behind it: a quote, "$(...)", "${...}", "$((...))", "`...`"; at + 1 for anything else.
// npos where it has no end.
std::size_t end_of_quoted(std::string_view text, std::size_t at, int depth = 0);

}  // namespace mbench::formats
