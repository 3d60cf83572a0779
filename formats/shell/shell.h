// The commands of a bash script with their words as bash would make them: variables, arrays, quotes, line continuations, arithmetic,
// tests, functions. Nothing is run and no environment is read: what a command would have printed is an unknown word, with the reason. Of
// branches that depend on one, every assigned variable is unknown.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mbench::formats {

struct ShellWord {
  std::string text;
  std::string unknown;  // why the text is not known; empty: it is
  bool unset = false;   // because of a variable that was never set
  int line = 0;
};

struct ShellCommand {
  std::vector<ShellWord> words;  // at least one
  int line = 0;
};

// The commands in the order in which they would run, also those of a branch that cannot be decided. `variables` are set, whatever the
// script assigns to them. Throws bad_input naming "file:line" for what bash would not parse, and for scripts that exceed the bounds.
std::vector<ShellCommand> shell_commands(std::string_view text, const std::string& file,
                                         const std::map<std::string, std::string>& variables = {});

}  // namespace mbench::formats
