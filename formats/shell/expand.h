// Words as bash would expand them, of variables that are known.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shell/lexer.h"
#include "formats/shell/shell.h"

namespace mbench::formats {

// Marks an unknown part in a word's text, so that the rest of the word can still be split. shell_commands() returns none.
constexpr char kUnknownPart = '\x01';
std::string without_unknown(std::string text);

// One element for a plain variable.
struct ShellValue {
  std::vector<ShellWord> elements;
};

class ShellVariables {
 public:
  explicit ShellVariables(const std::string& file) : file_(file) {}

  const ShellValue* find(const std::string& name) const;
  void set(const std::string& name, ShellValue value);
  void pin(const std::string& name, const std::string& value);  // whatever is assigned to it later
  void append(const std::string& name, const ShellValue& more, bool array);
  void forget(const std::string& name, const std::string& why, int line);  // it is unknown from here on

  // What a function or the script was called with.
  std::vector<ShellWord> arguments;

  // The fields that a word becomes: none, one or several. Throws bad_input naming the line for what has no end or grows without bounds.
  std::vector<ShellWord> expand(const ShellToken& word);
  // The same without splitting, as in an assignment or a test.
  ShellWord expand_whole(const ShellToken& word);
  // "$((...))".
  ShellWord arithmetic(std::string_view expression, int line);

 private:
  struct Fields;
  void expand_into(Fields& fields, std::string_view text, bool quoted, int depth);
  std::size_t dollar(Fields& fields, std::string_view text, std::size_t at, bool quoted, int depth);
  void parameter(Fields& fields, std::string_view inside, bool quoted, int depth);
  void value_of(Fields& fields, const std::string& name, std::string_view index, bool quoted);
  void spend(std::size_t bytes, int line);

  const std::string& file_;
  std::map<std::string, ShellValue> variables_;
  std::set<std::string> pinned_;
  std::size_t spent_ = 0;
};

}  // namespace mbench::formats
